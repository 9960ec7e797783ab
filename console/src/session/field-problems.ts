// Where in a form a refusal belongs. Pure.

/** A request that the service refused. */
interface Refusal {
  code: string
  message: string
  /** Which parts of the request, such as `body.agent`. */
  parts: readonly { at: string; detail: string }[]
}

export interface FormNames {
  /** The fields of the form. */
  fields: readonly string[]
  /** The fields for members of the request that are called otherwise. */
  members?: Readonly<Record<string, string>>
  /** The fields that codes are about. */
  codes?: Readonly<Record<string, string>>
}

/** What is wrong, by field; '' for what belongs to none. */
export function fieldProblems({ code, message, parts }: Refusal, { fields, members = {}, codes = {} }: FormNames): Record<string, string> {
  const fieldOf = (member: string): string | undefined => (fields.includes(member) ? member : members[member])
  const problems: Record<string, string> = {}
  for (const { at, detail } of parts) {
    const field = fieldOf(/^body\.([^.[]+)/.exec(at)?.[1] ?? '')
    if (field === undefined) problems[''] = message
    else problems[field] ??= detail
  }
  if (parts.length > 0) return problems
  // Checks of options name the option first.
  const named = /^`(\w+)/.exec(message)?.[1] ?? ''
  return { [fieldOf(named) ?? codes[code] ?? '']: message }
}
