// Makes texts that leave pawl well-formed Unicode, because providers' JSON parsers refuse half of a surrogate pair.

/** The text with U+FFFD in place of each lone surrogate, like `String.prototype.toWellFormed`. */
export function wellFormed(text: string): string {
  // With the flag `u`, a pair is one character and does not match.
  return text.replace(/\p{Surrogate}/gu, '\ufffd')
}
