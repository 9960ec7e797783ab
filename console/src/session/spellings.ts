// What a person may have meant by what they searched for. Pure.

/** The text itself, then as ids and tags are usually written: “Customer 42” as `customer:42` and `customer-42`. */
export function spellingsOf(text: string): string[] {
  const words = text.trim().split(/\s+/)
  if (words.length === 1) return [text.trim()]
  return [...new Set([text.trim(), ...[':', '-', '_'].map((joint) => words.join(joint).toLowerCase())])]
}
