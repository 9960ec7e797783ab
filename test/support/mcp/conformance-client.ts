// The client that the conformance suite of MCP starts with the address of its server: it reads the tools and calls them, as an executor does.
// A user who is asked to sign in does so, and answers what tools ask.
import {
  auth,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
} from '@modelcontextprotocol/client'
import type { JsonObject, Tool, ToolContext } from 'pawl'
import { mcp } from 'pawl/tools'
import { isAsking, withReplies } from '../../../src/agent/asking.ts'

const [url = ''] = process.argv.slice(2)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO
/** `toolCalls`: the calls that the scenario wants; otherwise each tool is called once. `client_id`: of a client that is registered already. */
const given = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}') as {
  toolCalls?: { name: string; arguments: JsonObject }[]
  client_id?: string
  client_secret?: string
}
/** Sign-ins, or answers, before the client gives up. */
const ROUNDS = 2

const quiet = () => undefined
const log = { debug: quiet, info: quiet, warn: (fields: object) => console.error(fields), error: quiet }
const ctx = { idempotencyKey: '', signal: new AbortController().signal, log, progress: quiet } as unknown as ToolContext

const user = signedInBy()
let server = connect()
try {
  let tools = await toolsOf(server)
  for (let round = 0; tools === undefined && round < ROUNDS && (await user.finish()); round++) {
    // Another server, because the first one keeps for a while that its list could not be read.
    await server.close()
    server = connect()
    tools = await toolsOf(server)
  }
  if (tools === undefined) throw new Error(server.problem())
  // This one has a tool that only its list matters for.
  for (const tool of scenario === 'json-schema-ref-no-deref' ? [] : tools) {
    const calls = given.toolCalls?.filter(({ name }) => tool.name === `server__${name}`) ?? [{ arguments: argumentsFor(tool) }]
    for (const call of calls) await answered(tool, call.arguments)
  }
} finally {
  await server.close()
}

function connect(): ReturnType<typeof mcp> {
  return mcp({ name: 'server', transport: { type: 'http', url, authProvider: user.provider }, effects: { '*': 'read' } })
}

async function toolsOf(source: ReturnType<typeof mcp>): Promise<Tool[] | undefined> {
  const tools = [...(await source.tools(log)).values()]
  return source.problem() === undefined ? tools : undefined
}

/** Calls the tool again with the answers to its questions, or after a sign-in, as pawl makes the next attempt of such a call. */
async function answered(tool: Tool, input: JsonObject): Promise<void> {
  let next = ctx
  for (let rounds = 1; rounds <= ROUNDS + 1; rounds++) {
    try {
      return void (await tool.execute?.(input, next))
    } catch (error) {
      if (!isAsking(error)) throw error
      await user.finish()
      const replies = error.questions.map(({ id, schema }) => [id, { action: 'accept', content: contentFor(schema) }] as const)
      next = withReplies(ctx, { replies: Object.fromEntries(replies), rounds, ...(error.state !== undefined && { state: error.state }) })
    }
  }
}

/** A provider of the MCP SDK, and the user behind it, whom the authorization server of the suite sends back at once. */
function signedInBy(): { provider: OAuthClientProvider; finish(): Promise<boolean> } {
  let registered: OAuthClientInformationMixed | undefined = given.client_id === undefined ? undefined : (given as never)
  let tokens: OAuthTokens | undefined
  let verifier = ''
  let discovered: OAuthDiscoveryState | undefined
  let authorization: URL | undefined
  const provider: OAuthClientProvider = {
    redirectUrl: 'http://localhost:3000/callback',
    clientMetadataUrl: 'https://conformance-test.local/client-metadata.json',
    clientMetadata: {
      client_name: 'pawl',
      redirect_uris: ['http://localhost:3000/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_post',
    },
    clientInformation: () => registered,
    saveClientInformation: (information) => void (registered = information),
    tokens: () => tokens,
    saveTokens: (saved) => void (tokens = saved),
    redirectToAuthorization: (to) => void (authorization = to),
    saveCodeVerifier: (code) => void (verifier = code),
    codeVerifier: () => verifier,
    saveDiscoveryState: (state) => void (discovered = state),
    discoveryState: () => discovered,
  }
  return {
    provider,
    async finish() {
      if (!authorization) return false
      const { headers } = await fetch(authorization, { redirect: 'manual' })
      authorization = undefined
      const { searchParams } = new URL(headers.get('location') ?? '')
      const iss = searchParams.get('iss')
      await auth(provider, { serverUrl: url, authorizationCode: searchParams.get('code') ?? '', ...(iss !== null && { iss }) })
      // What was discovered belongs to one sign-in: the next one may be at another server.
      discovered = undefined
      return true
    },
  }
}

function contentFor(schema: JsonObject | undefined): JsonObject {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, JsonObject> }
  return Object.fromEntries(Object.entries(properties).map(([name, { type, default: usual }]) => [name, usual ?? exampleOf(type)]))
}

function argumentsFor({ inputSchema }: Tool): JsonObject {
  const { properties = {}, required = [] } = inputSchema as { properties?: Record<string, JsonObject>; required?: string[] }
  return Object.fromEntries(required.map((argument) => [argument, exampleOf(properties[argument]?.type)]))
}

function exampleOf(type: unknown): string | number | boolean | JsonObject {
  switch (type) {
    case 'number':
    case 'integer':
      return 5
    case 'boolean':
      return true
    case 'object':
      return {}
    default:
      return 'text'
  }
}
