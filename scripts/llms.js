// `npm run llms`: llms.txt, the index of the guides for coding assistants (llmstxt.org), from docs/README.md, which lists them for people.
// `--check` fails if the file is out of date.
import { readFileSync, writeFileSync } from 'node:fs'
import { posix } from 'node:path'

const ROOT = new URL('..', import.meta.url)
/** What a program that uses pawl needs to know before it opens a guide. */
const NOTES = `What to know first:

- pawl is ESM for Node 20.19 or newer. Its entries: \`pawl\` (declare agents, tools, hooks, workers), \`pawl/client\` (\`Pawl.connect()\`, sessions,
  queries), \`pawl/worker\` (run workers), \`pawl/models\` (providers),
  \`pawl/tools\` (tools of the AI SDK), \`pawl/service\` (HTTP), \`pawl/workflow\` and \`pawl/activities\` (your own workflows), \`pawl/ui\` (browsers), \`pawl/testing\`.
  Their types carry the reference: read \`dist/**/*.d.ts\`.
- Every tool declares its \`effect\`: \`read\`, \`idempotent\` (pass \`ctx.idempotencyKey\` on), or \`external\` (give it a \`verify\`).
- Every error has a stable \`code\`; docs/errors.md lists them. The command \`pawl\` explains itself with \`pawl <command> --help\`.
- [The guides](docs/README.md) are listed here in the order in which they are needed.
- The links are relative to this file: in an installed package, to \`node_modules/pawl/\`.`

const read = (path) => readFileSync(new URL(path, ROOT), 'utf8')
const written = indexOf(read('README.md'), read('docs/README.md'))
const file = new URL('llms.txt', ROOT)

if (!process.argv.includes('--check')) writeFileSync(file, written)
else if (readFileSync(file, 'utf8') !== written) {
  console.error('llms.txt does not match README.md and docs/README.md: run `npm run llms`')
  process.exitCode = 1
}

function indexOf(readme, guides) {
  const summary = find('README.md', /^\*\*(.+)\*\*$/m, readme)
  const purpose = find('README.md', /^(You declare agents and tools[\s\S]*?)\n\n/m, readme)
  const sections = find('docs/README.md', /^(## [\s\S]*)/m, guides)
  const linked = sections.replaceAll(/\]\((?!https?:)([^)]+)\)/g, (_, target) => `](${posix.join('docs', target)})`)
  return `# pawl\n\n> ${summary}\n\n${purpose.replaceAll('\n', ' ')}\n\n${NOTES}\n\n${linked.trim()}\n`
}

function find(name, pattern, text) {
  const found = pattern.exec(text)?.[1]
  if (found === undefined) throw new Error(`${name} has nothing that matches ${pattern}`)
  return found
}
