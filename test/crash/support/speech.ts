// What the speaking agent says.

/** How it speaks: the first message of its session. */
export interface SpeechOrder {
  name: string
  turns: number
  words: number
  everyMs: number
}

/** The text of a turn. */
export function speech({ name, words }: SpeechOrder, turn: number): string {
  return Array.from({ length: words }, (_, at) => `${name}.${turn}.${at} `).join('')
}
