// `npm run llms`: llms.txt, the index of the guides for coding assistants (llmstxt.org), from README.md, which lists them for people.
// `--check` fails if the file is out of date.
import { readFileSync, writeFileSync } from 'node:fs'

const ROOT = new URL('..', import.meta.url)
/** What a program that uses pawl needs to know before it opens a guide. */
const NOTES = `What to know first:

- pawl is ESM for Node 20.19 or newer. Its entries: \`pawl\` (declare agents, tools, hooks, workers), \`pawl/client\` (\`Pawl.connect()\`, sessions,
  queries), \`pawl/worker\` (run workers), \`pawl/models\` (providers), \`pawl/service\` (HTTP), \`pawl/ui\` (browsers), \`pawl/testing\`.
  Their types carry the reference: read \`dist/**/*.d.ts\`.
- Every tool declares its \`effect\`: \`read\`, \`idempotent\` (pass \`ctx.idempotencyKey\` on), or \`external\` (give it a \`verify\`).
- Every error has a stable \`code\`; docs/errors.md lists them. The command \`pawl\` explains itself with \`pawl <command> --help\`.
- The links are relative to this file: in an installed package, to \`node_modules/pawl/\`.`

const readme = readFileSync(new URL('README.md', ROOT), 'utf8')
const written = indexOf(readme)
const file = new URL('llms.txt', ROOT)

if (!process.argv.includes('--check')) writeFileSync(file, written)
else if (readFileSync(file, 'utf8') !== written) {
  console.error('llms.txt does not match README.md: run `npm run llms`')
  process.exitCode = 1
}

function indexOf(text) {
  const summary = find(/^\*\*(.+)\*\*$/m, text)
  const purpose = find(/^(You declare agents and tools[\s\S]*?)\n\n/m, text)
  const list = find(/^## Documentation\n\n([\s\S]*?)\n\nThe package contains/m, text)
  // A line that is neither an item nor the rest of one is a heading.
  const sections = list.replaceAll(/^(?![-\s])(?=.)(.+?):?$/gm, '\n## $1\n').replaceAll(/\n{3,}/g, '\n\n')
  return `# pawl\n\n> ${summary}\n\n${purpose.replaceAll('\n', ' ')}\n\n${NOTES}\n\n${sections.trim()}\n`
}

function find(pattern, text) {
  const found = pattern.exec(text)?.[1]
  if (found === undefined) throw new Error(`README.md has nothing that matches ${pattern}`)
  return found
}
