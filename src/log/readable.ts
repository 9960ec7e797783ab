// Formats a log line for people: time, level, message, then the fields.
import { styleText } from 'node:util'
import type { Level } from './levels.ts'
import { beginningOf } from '../session/beginning.ts'

/** A line before it is written. */
export interface Line {
  at: Date
  level: Level
  fields: object
  message: string
}

type TextStyle = Parameters<typeof styleText>[0]

const STYLES: Record<Level, TextStyle> = { debug: 'dim', info: 'green', warn: 'yellow', error: ['bold', 'red'] }
const MAX_CHARACTERS = 300

/** The line with its line break. The stack trace of a failed attempt, or of an error without a code, follows on separate lines. */
export function readable({ at, level, fields, message }: Line, isColoured: boolean): string {
  const paint = (style: TextStyle, text: string): string => (isColoured ? styleText(style, text, { validateStream: false }) : text)
  const { err, stack: ofAttempt, ...rest } = fields as { err?: unknown; stack?: unknown }
  const error = isError(err) ? err : undefined
  const shown = { ...rest, ...(error ? { error: error.message, code: error.code } : { err }) }
  const members = Object.entries(shown).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${valueOf(value)}`]))
  const line = [paint('dim', timeOf(at)), paint(STYLES[level], level.padEnd(5)), withoutControls(message), paint('dim', members.join(' '))]
  const stack = typeof ofAttempt === 'string' ? linesIn(ofAttempt) : error && error.code === undefined ? framesOf(error) : []
  return [line.filter((part) => part !== '').join(' '), ...stack.map((part) => paint('dim', `    ${withoutControls(part)}`)), ''].join('\n')
}

interface LoggedError {
  message: string
  code?: unknown
  stack?: unknown
}

function isError(err: unknown): err is LoggedError {
  return typeof err === 'object' && err !== null && typeof (err as LoggedError).message === 'string'
}

/** The stack frames of the error. */
function framesOf({ stack }: LoggedError): string[] {
  return typeof stack === 'string' ? linesIn(stack).filter((line) => line.startsWith('at ')) : []
}

function linesIn(text: string): string[] {
  return text.split('\n').map((line) => line.trim())
}

function timeOf(at: Date): string {
  const two = (number: number): string => String(number).padStart(2, '0')
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

/** Simple words and numbers unchanged, anything else as JSON. */
function valueOf(value: unknown): string {
  const isPlain = typeof value === 'string' && /^[\w.:/@+-]+$/.test(value)
  const text = isPlain ? value : withoutControls(JSON.stringify(value) ?? String(value))
  return text.length <= MAX_CHARACTERS ? text : `${beginningOf(text, MAX_CHARACTERS)}…`
}

/** Escapes control characters: text from models and tools must not control the terminal. */
function withoutControls(text: string): string {
  // oxlint-disable-next-line no-control-regex -- to replace them
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
