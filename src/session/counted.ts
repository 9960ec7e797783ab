// Formats a number of things for people.

/** `1 session`, `2 sessions`, `0 tasks`: for nouns with a regular plural. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
