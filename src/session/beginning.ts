// The beginning of a text. Any other way of cutting a text may leave half a character, which UTF-8 cannot represent.

/** The first `max` UTF-16 units of the text at most, without half of a surrogate pair at the end. */
export function beginningOf(text: string, max: number): string {
  if (text.length <= max) return text
  const isSplit = /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(max - 1, max + 1))
  return text.slice(0, isSplit ? max - 1 : max)
}
