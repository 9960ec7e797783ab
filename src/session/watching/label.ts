// What Temporal's own view calls a session.
const MAX_LABEL = 200

/** The agent and the tags on one line, such as `support (vip, eu)`; empty if neither is known. */
export function labelOf(agent: string | undefined, tags: readonly string[] = []): string {
  const text = [agent, tags.length > 0 ? `(${tags.join(', ')})` : undefined].filter(Boolean).join(' ')
  const characters = Array.from(text.replaceAll(/\s+/g, ' '))
  return characters.length <= MAX_LABEL ? characters.join('') : `${characters.slice(0, MAX_LABEL - 1).join('')}…`
}
