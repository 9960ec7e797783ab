// Marks pawl's own text among a user's blocks, so that the model knows that the user did not write it.

/** The text, as a note from the system. */
export function systemNote(what: string): string {
  return `[From the system, not from the user: ${what}]`
}
