// Describes why a user's module or services failed, in one line with the place.

/** The end of a stack line: a path or a file URL with a line and perhaps a column. */
const PLACE = /(?:^|[\s(])(?:file:\/\/)?((?:\/|[A-Z]:[\\/])[^()\n]*?:\d+(?::\d+)?)\)?$/gm
const NOT_THEIRS = /[\\/]node_modules[\\/]/

/** The error's message, and its place in the user's code if the stack has one. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const message = error.message.replace(/\.$/, '')
  const place = [...(error.stack ?? '').matchAll(PLACE)].map(([, found = '']) => found).find((found) => !NOT_THEIRS.test(found))
  return place === undefined || message.includes(place) ? message : `${message} (at ${place})`
}
