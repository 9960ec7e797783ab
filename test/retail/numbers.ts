// Numbers as in Python: rounding to cents, printing a float, and evaluating an arithmetic expression.

/** Two decimals of the exact binary value, ties to even. */
export function round2(value: number): number {
  if (value === 0 || !Number.isFinite(value)) return value
  const eighths = value * 8
  // A tie is an odd number of eighths (x.125, x.375, …): toFixed, which takes the larger, differs only there.
  if (!Number.isInteger(eighths) || eighths % 2 === 0) return Number(value.toFixed(2))
  const doubled = BigInt(Math.abs(eighths)) * 25n
  const below = doubled / 2n
  const cents = below % 2n === 0n ? below : below + 1n
  return Math.sign(value) * Number(`${cents}e-2`)
}

/** A float as Python prints it, for values rounded to 2 decimals. */
export function printFloat(value: number): string {
  if (Object.is(value, -0)) return '-0.0'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : value < 0 ? '-inf' : 'nan'
  if (Math.abs(value) >= 1e16) return value.toExponential()
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

/** Thrown for an expression that does not evaluate; the message is Python's. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
}

/** Python's `int` or `float`. */
type Value = bigint | number

/** Evaluates `+ - * / // **`, signs and parentheses. @throws EvaluationError. */
export function evaluate(expression: string): number {
  const tokens = tokensOf(expression)
  checkParentheses(tokens)
  const reader = { tokens, at: 0 }
  const value = sum(reader)
  if (reader.at < tokens.length) throw invalidSyntax()
  return toFloat(value)
}

interface Reader {
  tokens: string[]
  at: number
}

const invalidSyntax = (line = 1) => new EvaluationError(`invalid syntax (<string>, line ${line})`)

function tokensOf(expression: string): string[] {
  const tokens = expression.match(/\d+\.?\d*|\.\d+|\*\*|\/\/|[-+*/().]/g) ?? []
  if (tokens.length === 0) throw invalidSyntax(0)
  if (tokens.some((token) => /^0+[1-9]\d*$/.test(token))) {
    throw new EvaluationError(
      'leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers (<string>, line 1)',
    )
  }
  return tokens
}

function checkParentheses(tokens: string[]): void {
  let open = 0
  for (const token of tokens) {
    if (token === '(') open++
    if (token === ')' && --open < 0) throw new EvaluationError("unmatched ')' (<string>, line 1)")
  }
  if (open > 0) throw new EvaluationError("'(' was never closed (<string>, line 1)")
}

function take(reader: Reader, ...wanted: string[]): string | undefined {
  const token = reader.tokens[reader.at]
  if (token === undefined || !wanted.includes(token)) return undefined
  reader.at++
  return token
}

function sum(reader: Reader): Value {
  let left = product(reader)
  for (let sign = take(reader, '+', '-'); sign; sign = take(reader, '+', '-')) {
    const right = product(reader)
    left = sign === '+' ? add(left, right) : add(left, -right)
  }
  return left
}

function product(reader: Reader): Value {
  let left = signed(reader)
  for (let sign = take(reader, '*', '/', '//'); sign; sign = take(reader, '*', '/', '//')) {
    const right = signed(reader)
    left = sign === '*' ? multiply(left, right) : sign === '/' ? divide(left, right) : floorDivide(left, right)
  }
  return left
}

function signed(reader: Reader): Value {
  const sign = take(reader, '+', '-')
  if (!sign) return power(reader)
  const value = signed(reader)
  return sign === '-' ? -value : value
}

function power(reader: Reader): Value {
  const base = atom(reader)
  return take(reader, '**') ? raise(base, signed(reader)) : base
}

function atom(reader: Reader): Value {
  if (take(reader, '(')) {
    const value = sum(reader)
    if (!take(reader, ')')) throw invalidSyntax()
    return value
  }
  const token = reader.tokens[reader.at++]
  if (token === undefined || !/\d/.test(token)) throw invalidSyntax()
  return token.includes('.') ? Number(token) : BigInt(token)
}

function toFloat(value: Value): number {
  const float = Number(value)
  if (typeof value === 'bigint' && !Number.isFinite(float)) throw new EvaluationError('int too large to convert to float')
  return float
}

function add(left: Value, right: Value): Value {
  return typeof left === 'bigint' && typeof right === 'bigint' ? left + right : toFloat(left) + toFloat(right)
}

function multiply(left: Value, right: Value): Value {
  return typeof left === 'bigint' && typeof right === 'bigint' ? left * right : toFloat(left) * toFloat(right)
}

function divide(left: Value, right: Value): Value {
  const whole = typeof left === 'bigint' && typeof right === 'bigint'
  if (Number(right) === 0) throw new EvaluationError(whole ? 'division by zero' : 'float division by zero')
  return toFloat(left) / toFloat(right)
}

function floorDivide(left: Value, right: Value): Value {
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    if (right === 0n) throw new EvaluationError('integer division or modulo by zero')
    const quotient = left / right
    return left % right !== 0n && left < 0n !== right < 0n ? quotient - 1n : quotient
  }
  const [dividend, divisor] = [toFloat(left), toFloat(right)]
  if (divisor === 0) throw new EvaluationError('float floor division by zero')
  // From the exact remainder, as Python does: Math.floor of the quotient is off by one if the quotient was rounded up.
  const remainder = dividend % divisor
  const quotient = (dividend - remainder) / divisor
  return Math.round(remainder !== 0 && remainder < 0 !== divisor < 0 ? quotient - 1 : quotient)
}

/** Digits of the largest integer power that is computed: no expression of the workload comes near it. */
const MAX_POWER_DIGITS = 100_000

function raise(base: Value, exponent: Value): Value {
  if (typeof base === 'bigint' && typeof exponent === 'bigint' && exponent >= 0n) {
    if (base.toString().length * Number(exponent) > MAX_POWER_DIGITS) throw new EvaluationError('int too large to convert to float')
    return base ** exponent
  }
  const [number, power] = [toFloat(base), toFloat(exponent)]
  if (number === 0 && power < 0) throw new EvaluationError('0.0 cannot be raised to a negative power')
  if (number < 0 && !Number.isInteger(power)) {
    throw new EvaluationError("float() argument must be a string or a real number, not 'complex'")
  }
  const value = number ** power
  if (!Number.isFinite(value) && Number.isFinite(number)) throw new EvaluationError("(34, 'Numerical result out of range')")
  return value
}
