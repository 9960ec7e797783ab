// The HTTP interface of the deployment, with the types of its OpenAPI document.
import createClient from 'openapi-fetch'
import { noteTime } from '../clock.ts'
import type { paths } from './openapi.d.ts'

/** The console lies beside the interface. */
const BASE = new URL('..', document.baseURI).href.replace(/\/$/, '')

/** The event of the window when the server no longer accepts the visitor. */
export const SIGNED_OUT = 'signed-out'

export const api = createClient<paths>({ baseUrl: BASE })
api.use({
  onResponse({ response }) {
    noteTime(response.headers)
    if (response.status === 401) dispatchEvent(new Event(SIGNED_OUT))
  },
})

/** A request that the service refused, in words for people. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly status: number
  readonly code: string
  /** Which parts of the request were refused. */
  readonly parts: readonly { at: string; detail: string }[]

  constructor(status: number, problem: { code?: string; detail?: string; parts?: Refused['parts'] }) {
    super(problem.detail ?? `The server answered with status ${status}.`)
    this.status = status
    this.code = problem.code ?? ''
    this.parts = problem.parts ?? []
  }
}

interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

/** What the request returned. @throws Refused; TypeError if there is no connection. */
export async function answered<T>(request: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await request
  if (!response.ok) throw new Refused(response.status, (error ?? {}) as { code?: string; detail?: string })
  return data as T
}

/** The address of a stream. */
export const streamAt = (path: string): string => `${BASE}${path}`

async function post(path: string, body: object): Promise<void> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(new URL(path, document.baseURI), init)
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})))
}

/** @throws Refused if the key is not valid. */
export const signIn = (key: string): Promise<void> => post('login', { key })
export const signOut = (): Promise<void> => post('logout', {})
