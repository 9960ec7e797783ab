// The outcome of an operation as a code, for tests that do the same thing in several ways at once.

/** The code of the error that the work fails with, or `accepted`. */
export async function codeOf(work: PromiseLike<unknown>): Promise<unknown> {
  try {
    await work
    return 'accepted'
  } catch (error) {
    return (error as { code?: unknown } | null)?.code ?? error
  }
}
