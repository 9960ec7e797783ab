// The alert rules of docs/alerts.yml: what they read, and whether an endpoint has it.
import { readFile } from 'node:fs/promises'

/** What an expression reads: the samples of one metric, with the labels that it compares, groups by, or shows. */
export interface Selector {
  alert: string
  metric: string
  /** Labels that must have exactly this value. */
  equal: Record<string, string>
  /** Labels that must exist. */
  labels: string[]
}

/** The selectors of all rules. */
export async function selectorsOfAlerts(): Promise<Selector[]> {
  const text = await readFile(new URL('../../docs/alerts.yml', import.meta.url), 'utf8')
  return text
    .split(/^ +- alert: /m)
    .slice(1)
    .flatMap(selectorsOf)
}

/** Words of PromQL that look like metrics. */
const WORDS = new Set(['by', 'or', 'and', 'unless', 'without', 'on', 'ignoring'])

function selectorsOf(rule: string): Selector[] {
  const alert = rule.split('\n', 1)[0]?.trim() ?? ''
  const [, expr = ''] = /^ +expr: (?:>-\n)?((?:.|\n)*?)\n +(?:for|labels):/m.exec(rule) ?? []
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(',').map((name) => name.trim()))
  const shown = [...rule.matchAll(/\$labels\.(\w+)/g)].map(([, name = '']) => name)
  const read = expr.replaceAll(/\bby \([^)]*\)/g, '').matchAll(/\b([a-z]\w*)(?:\{([^}]*)\})?(?![\w(]| *\()/g)
  return [...read].flatMap(([, metric = '', matchers = '']) => {
    if (WORDS.has(metric) || /^\d/.test(metric)) return []
    const compared = [...matchers.matchAll(/(\w+)(!?=~?)"([^"]*)"/g)]
    const equal = Object.fromEntries(compared.filter(([, , how]) => how === '=').map(([, name = '', , value = '']) => [name, value]))
    return [{ alert, metric, equal, labels: [...new Set([...compared.map(([, name = '']) => name), ...grouped, ...shown])] }]
  })
}

/** Whether a scraped endpoint has a sample that the selector reads. */
export function hasSample(text: string, { metric, equal, labels }: Selector): boolean {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
    .some((line) => {
      const found = Object.fromEntries([...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value]))
      return labels.every((name) => name in found) && Object.entries(equal).every(([name, value]) => found[name] === value)
    })
}
