// The example of docs/recipes.md, compiled and run by our tests: what its recipes share.
// #region guide
import { ToolError } from 'pawl'

interface Call {
  method?: string
  headers?: Record<string, string>
  body?: string
  signal: AbortSignal
}

/** A request whose refusals are final: after a 4xx, except 408, 409 and 429, nothing has happened. */
export async function request<R>(url: string, call: Call): Promise<R> {
  const response = await fetch(url, call)
  if (response.ok) return (await response.json()) as R
  const { status } = response
  const message = `${new URL(url).host} answered ${status}: ${(await response.text()).slice(0, 300)}`
  const isRefused = status >= 400 && status < 500 && ![408, 409, 429].includes(status)
  throw new ToolError(message, isRefused ? { happened: false, retryable: false, code: 'refused' } : { code: `http_${status}` })
}
// #endregion
