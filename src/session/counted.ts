// How a number of things is written for people.

/** `1 session`, `2 sessions`, `0 tasks`: for nouns whose plural ends with an s. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
