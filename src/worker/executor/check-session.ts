// Finds what would change for an open session if only these agents served it. Used by `pawl preflight`. It calls no tool, no model and no
// function of the agents.
import type { Agent } from '../../agent/agent.ts'
import type { Tool } from '../../agent/tool.ts'
import { contextProblem } from '../../jobs/context-check.ts'
import { isStricter } from '../../jobs/tool-call/execute-tool.ts'
import { parseInput } from '../../jobs/tool-call/resolve.ts'
import type { PreflightWarning, UnverifiedTool } from '../preflight-report.ts'
import type { UnfinishedCall, ReplayedSession } from '../protocol.ts'

type CheckProblem = Pick<PreflightWarning, 'code' | 'message'>

/** The warnings for a session; none if nothing changes for it. */
export async function checkSession(agents: ReadonlyMap<string, Agent>, session: ReplayedSession): Promise<PreflightWarning[]> {
  const { agent: name, calls } = session
  const agent = agents.get(name)
  if (!agent) return [{ ...agentNotServed(name), agent: name }]
  const ofCalls = calls.map(async (call) => {
    const { callId, resolution } = call
    // The tools of an MCP server are known only while it runs.
    if (agent.sources.some((source) => source.owns(resolution.tool))) return []
    const found = await checkCall(agent.tools.get(resolution.tool), call)
    return found.map((one) => ({ ...one, agent: name, tool: resolution.tool, callId }))
  })
  const mismatch = await contextProblem(agent, session.context)
  const ofSession = mismatch === undefined ? [] : [{ ...invalidContext(name), agent: name }]
  return [...ofSession, ...(await contextsBelow(agents, agent, session)), ...(await Promise.all(ofCalls)).flat()]
}

/** The tools whose agent would refuse the session's context, which it receives unless the tool makes another one. */
async function contextsBelow(agents: ReadonlyMap<string, Agent>, agent: Agent, { context }: ReplayedSession): Promise<PreflightWarning[]> {
  const found = [...agent.tools.values()].map(async ({ name: tool, agent: called }): Promise<PreflightWarning[]> => {
    const child = called && !called.context ? agents.get(called.name) : undefined
    if (!child || (await contextProblem(child, context)) === undefined) return []
    return [{ ...contextRefusedBelow(child.name), agent: agent.name, tool }]
  })
  return (await Promise.all(found)).flat()
}

/** The agent's tools for whose interrupted calls only a person can answer. A client tool's effect is the client's concern. */
export function unverifiedIn({ name: agent, tools }: Agent): UnverifiedTool[] {
  return [...tools.values()].flatMap(({ name: tool, effect, execute, verify, onUnknown }) =>
    effect === 'external' && execute && !verify ? [{ agent, tool, onUnknown }] : [],
  )
}

function checkCall(tool: Tool | undefined, call: UnfinishedCall): CheckProblem[] | Promise<CheckProblem[]> {
  switch (call.status) {
    case 'awaiting_answer':
      // The session of another agent answers without the tool.
      return tool || call.resolution.client?.agent ? [] : [ANSWERS_REFUSED]
    case 'awaiting_resolution':
    case 'unknown':
      return checkUnknown(tool, call)
    default:
      return checkExecution(tool, call)
  }
}

/** Checks a call that will be executed, either at once or after a person approves it. */
async function checkExecution(tool: Tool | undefined, { input, resolution }: UnfinishedCall): Promise<CheckProblem[]> {
  if (!tool) return [TOOL_NOT_SERVED]
  if (!tool.execute && !tool.agent) return [ANSWERED_BY_CLIENT]
  if (input !== undefined && 'problem' in (await parseInput(tool, input))) return [ARGUMENTS_DO_NOT_MATCH]
  return [
    ...(tool.schemaDigest === resolution.schemaDigest ? [] : [SCHEMA_CHANGED]),
    ...(isStricter(tool, resolution.effect) ? [effectStricter(resolution.effect, tool.effect)] : []),
    ...(resolution.verify && !tool.verify ? [VERIFY_REMOVED] : []),
  ]
}

/** Checks a call whose outcome is unknown: pawl calls `verify` for it, and a person may have it executed again. */
async function checkUnknown(tool: Tool | undefined, { status, input, resolution }: UnfinishedCall): Promise<CheckProblem[]> {
  if (!tool && status === 'awaiting_resolution' && !resolution.verify) return [CANNOT_RETRY]
  if (!resolution.verify || input === undefined) return []
  if (!tool) return [staysUnknown('tool_not_served', 'No worker of this build has the tool')]
  if (!tool.verify) return [staysUnknown('verify_removed', 'The tool no longer has a verify')]
  if ('problem' in (await parseInput(tool, input))) {
    return [staysUnknown('arguments_do_not_match', "The call's arguments no longer match the tool's schema")]
  }
  return []
}

const IN_TIME = 'after two minutes (notServedAfter) the session enters error: agent_not_served, which it leaves by itself.'

const TOOL_NOT_SERVED: CheckProblem = { code: 'tool_not_served', message: `The call waits for a worker that has the tool; ${IN_TIME}` }

const CANNOT_RETRY: CheckProblem = {
  code: 'tool_not_served',
  message: `The outcome of the call is unknown. If a person has it executed again, it waits for a worker that has the tool; ${IN_TIME}`,
}

const ANSWERS_REFUSED: CheckProblem = {
  code: 'tool_not_served',
  message: 'Answers to the call are refused with agent_not_served until a worker has the tool.',
}

const ANSWERED_BY_CLIENT: CheckProblem = {
  code: 'answered_by_client',
  message: "The tool is now a client tool: the call is issued again and waits for a client's answer.",
}

const ARGUMENTS_DO_NOT_MATCH: CheckProblem = {
  code: 'arguments_do_not_match',
  message: "The call's arguments no longer match the tool's schema: the tool is not executed, and the model gets an error result.",
}

const SCHEMA_CHANGED: CheckProblem = {
  code: 'schema_changed',
  message: "The tool's schema has changed, and the call's arguments match it: the call is resolved again and executed by this build.",
}

const VERIFY_REMOVED: CheckProblem = {
  code: 'verify_removed',
  message: 'The tool no longer has a verify: if the outcome of the call becomes unknown, onUnknown applies.',
}

function agentNotServed(agent: string): CheckProblem {
  const message = `This build does not serve the agent "${agent}". The session's next call waits for a worker that does; ${IN_TIME}`
  return { code: 'agent_not_served', message }
}

function invalidContext(agent: string): CheckProblem {
  const message = `The session's context no longer matches the schema of agent "${agent}": its next model call fails with invalid_context.`
  return { code: 'invalid_context', message }
}

function contextRefusedBelow(child: string): CheckProblem {
  const message = `The session's context does not match the schema of agent "${child}", which the tool calls with it: its calls fail with invalid_context. Map it with the tool's option context.`
  return { code: 'invalid_context', message }
}

function effectStricter(before: string, now: string): CheckProblem {
  const message = `The call was resolved as ${before}, and the tool is now ${now}: the call is resolved again and executed as ${now}.`
  return { code: 'effect_stricter', message }
}

function staysUnknown(code: CheckProblem['code'], why: string): CheckProblem {
  return { code, message: `${why}, so the outcome of the call stays unknown until a person resolves it.` }
}
