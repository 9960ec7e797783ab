// Text for a terminal: colours if it supports them, and no control characters from models or tools.
import { stripVTControlCharacters, styleText } from 'node:util'

/** A format of `styleText`. */
export type Style = Parameters<typeof styleText>[0]

const coloured = process.stdout.isTTY === true && process.stdout.hasColors()

/** The text in a style, if standard output supports colours. */
export function paint(style: Style, text: string): string {
  return coloured ? styleText(style, text) : text
}

/** The text without escape sequences and control characters; newlines and tabs stay. */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- they are removed
  return stripVTControlCharacters(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
}

/** The text on one line of at most `max` characters. */
export function oneLine(text: string, max = 240): string {
  const line = printable(text).replace(/\s+/g, ' ').trim()
  const characters = Array.from(line)
  return characters.length <= max ? line : `${characters.slice(0, max - 1).join('')}…`
}
