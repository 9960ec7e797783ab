// What the benchmarks with many options share: parsing, and refusals that say how to call the benchmark.
import { parseArgs, type ParseArgsConfig } from 'node:util'

/** Reads options, or says what is wrong with them, and how the benchmark is called, and ends the process. */
export interface OptionReader {
  parse<const O extends NonNullable<ParseArgsConfig['options']>>(
    args: string[],
    options: O,
  ): ReturnType<typeof parseArgs<{ args: string[]; options: O & { help: { type: 'boolean' } } }>>['values']
  /** A positive integer. */
  positive(name: string, value: string): number
  refuse(why: string): never
}

/** `help`: how the benchmark is called. */
export function optionReader(help: string): OptionReader {
  function refuse(why: string): never {
    console.error(`${why}\n${help}`)
    process.exit(2)
  }

  return {
    parse(args, options) {
      try {
        const { values } = parseArgs({ args, options: { ...options, help: { type: 'boolean', short: 'h' } } })
        if (!(values as { help?: boolean }).help) return values as never
      } catch (error) {
        return refuse(error instanceof Error ? error.message : String(error))
      }
      console.log(help)
      process.exit(0)
    },
    positive(name, value) {
      const number = Number(value)
      return Number.isInteger(number) && number > 0 ? number : refuse(`--${name} takes a positive integer, not "${value}".`)
    },
    refuse,
  }
}
