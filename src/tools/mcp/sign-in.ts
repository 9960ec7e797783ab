// `signIn`: what `auth` of an MCP server returns if the user must sign in first.

const URL_OF = Symbol.for('pawl.signIn')

/** The user must sign in; made by `signIn`. */
export interface SignIn {
  readonly [URL_OF]: string
}

/**
 * For `auth` of `mcp`: the user must sign in first. The call waits as a question with this URL, until a client answers it.
 * `url`: the page at which the user signs in, with http or https, at most 4,000 characters. It is recorded, and must not contain a secret.
 */
export function signIn(url: string | URL): SignIn {
  return { [URL_OF]: String(url) }
}

/** Whether it was made by `signIn`, even by another copy of pawl in the same process. */
export function isSignIn(value: unknown): value is SignIn {
  return typeof value === 'object' && value !== null && URL_OF in value
}

export const urlOf = (value: SignIn): string => value[URL_OF]
