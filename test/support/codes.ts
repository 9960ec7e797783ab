// How a piece of work ends, said by a code: for tests that do the same in several ways at once.

/** The code of the error that the work fails with, or `accepted`. */
export async function codeOf(work: PromiseLike<unknown>): Promise<unknown> {
  try {
    await work
    return 'accepted'
  } catch (error) {
    return (error as { code?: unknown } | null)?.code ?? error
  }
}
