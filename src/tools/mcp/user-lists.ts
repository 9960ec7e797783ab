// The tools of an MCP server that lists them for each user. While the user has not signed in, there is one tool, which asks for that.
import { defineTool } from '../../agent/define-tool.ts'
import type { Logger, SourceContext, Tool, ToolContext, ToolSource } from '../../agent/tool.ts'
import { z } from 'zod'
import { identityOf, identityOrSignIn, type McpIdentity, pendingReplies, signInQuestion } from './auth.ts'
import type { ToolCaller } from './call.ts'
import { isUnauthorized, unavailable } from './errors.ts'
import { SIGN_IN_TOOL, toolNameOf } from './names.ts'
import { type SharedTools, type ToolList, toolList } from './tool-list.ts'

/** Lists of more users are read again when they are needed. */
const MAX_LISTS = 1_000
/** With the first answer of `auth`, and with what it returns when the server has refused that. */
const TRIES = [undefined, true] as const

/** The part of a source that depends on the session. */
type OfSession = Pick<ToolSource, 'problem' | 'tools' | 'find' | 'askUser' | 'askTool'>

export interface UserLists {
  forSession(ctx: SourceContext): OfSession
  /** The lists may have changed. */
  expire(): void
}

export function userLists(caller: ToolCaller, shared: SharedTools): UserLists {
  const { rules, pool } = caller
  /** By identity, the least recently used first. */
  const lists = new Map<string, ToolList>()
  const signIn = signInTool(rules.name, rules.timeoutMs, askUser)
  const waitMs = rules.listMs

  function listOf(identity: McpIdentity): ToolList {
    const { key } = identity
    const list = lists.get(key) ?? toolList(caller, shared, (log) => readAs(identity, log))
    lists.delete(key)
    lists.set(key, list)
    const [oldest] = lists.keys()
    if (lists.size > MAX_LISTS && oldest !== undefined) lists.delete(oldest)
    return list
  }

  const readAs = (identity: McpIdentity, log: Logger): ReturnType<ToolCaller['pool']['list']> =>
    pool.use(identity, { waitMs, signal: AbortSignal.timeout(2 * waitMs) }, (connection) => connection.list(log))

  /** The list that the session's user sees; undefined: the user must sign in first. @throws ToolError. */
  async function readable(ctx: SourceContext): Promise<ToolList | undefined> {
    let list: ToolList | undefined
    for (const refused of TRIES) {
      const identity = await identityOrSignIn(rules, ctx, refused)
      if (typeof identity === 'string') return undefined
      list = listOf(identity)
      await list.tools(ctx.log)
      if (!isUnauthorized(list.failure())) return list
      // A provider of the MCP SDK has told the user where to sign in.
      if (identity.redirect?.url !== undefined) return undefined
    }
    return list
  }

  /** Asks the call's user to sign in, unless the list can be read. @throws AsksUser, ToolError. */
  async function askUser(ctx: ToolContext): Promise<void> {
    const pending = pendingReplies(rules, ctx)
    for (const refused of TRIES) {
      const identity = await identityOf(rules, ctx, pending, refused)
      try {
        return await listOf(identity).refresh(ctx.log)
      } catch (error) {
        const url = isUnauthorized(error) ? identity.redirect?.url : undefined
        if (url !== undefined) throw signInQuestion(rules, url, pending)
        if (refused || !isUnauthorized(error)) throw error
      }
    }
  }

  /** The tool as another user sees it. Its calls ask their own user to sign in. */
  const ofOthers = (tool: string): Tool | undefined => [...shared.made.values()].find((made) => made.tool.name === tool)?.tool

  function forSession(ctx: SourceContext): OfSession {
    let problem: string | undefined
    return {
      askTool: signIn.name,
      askUser,
      problem: () => problem,
      async tools(log) {
        try {
          const list = await readable(ctx)
          if (!list) return new Map([[signIn.name, signIn]])
          if (!list.isKnown()) problem = list.failure()?.message ?? 'The tools have not been read yet.'
          return await list.tools(log)
        } catch (error) {
          problem = (error as Error).message
          return new Map()
        }
      },
      async find(tool, log, how) {
        if (tool === signIn.name) return signIn
        const list = await readable(ctx)
        if (list) return list.find(tool, log, how)
        const known = ofOthers(tool)
        if (known) return known
        throw unavailable(rules.name, new Error('its user has not signed in'))
      },
    }
  }

  return {
    forSession,
    expire() {
      for (const list of lists.values()) list.expire()
    },
  }
}

function signInTool(server: string, timeout: number, askUser: (ctx: ToolContext) => Promise<void>): Tool {
  return defineTool({
    name: toolNameOf(server, SIGN_IN_TOOL),
    description: `Asks the user to sign in to ${server}. Its other tools are available once the user has done so.`,
    effect: 'read',
    input: z.object({}),
    timeout,
    async execute(_, ctx) {
      await askUser(ctx as ToolContext)
      return `The user has signed in to ${server}. Its tools are available now.`
    },
  }) as Tool
}
