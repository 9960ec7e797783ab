// What the speaking agent says.

/** How it speaks: a message to it. */
export interface SpeechOrder {
  name: string
  turns: number
  words: number
  everyMs: number
  /** The first attempt of each turn says nothing after this many words, until its process is killed. Default: it says all. */
  silentAfter?: number
}

/** The text of a turn. */
export function speech({ name, words }: SpeechOrder, turn: number): string {
  return Array.from({ length: words }, (_, at) => `${name}.${turn}.${at} `).join('')
}
