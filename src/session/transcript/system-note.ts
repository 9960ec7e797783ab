// How a text of pawl's among a user's blocks says that the user did not write it.

/** What is said, as a note of the system. */
export function systemNote(what: string): string {
  return `[From the system, not from the user: ${what}]`
}
