// `npm run api`: writes to api/ what each entry point exports, so that a review sees every change of the public surface. With `--check` it
// writes nothing, and fails if api/ is out of date, if there are too many names, or if a name appears in no guide and no example.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const MOST_NAMES = 200
const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path) => readFileSync(join(ROOT, path), 'utf8')
const filesIn = (folder, ending) => readdirSync(join(ROOT, folder), { recursive: true }).filter((path) => ending.test(path))

const entries = Object.entries(JSON.parse(read('package.json')).exports).filter(([, { types }]) => types)
const files = entries.map(([, { types }]) => join(ROOT, types))
const program = ts.createProgram(files, { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2023, skipLibCheck: true, types: [] })
const checker = program.getTypeChecker()
const printer = ts.createPrinter({ removeComments: true })
const target = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol)
const isOurs = ({ flags, declarations }) =>
  !(flags & ts.SymbolFlags.TypeParameter) && declarations?.some((one) => one.getSourceFile().fileName.startsWith(join(ROOT, 'dist/')))

/** What each entry point exports, by name. */
const exported = files.map((file) =>
  checker
    .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)))
    .map(target)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1)),
)

/** The declarations of a symbol, without comments. Adds the types that they name to `named`. */
function declared(symbol, named) {
  const texts = symbol.declarations.map((declaration) => {
    ts.forEachChild(declaration, function visit(node) {
      const name = ts.isTypeReferenceNode(node) ? node.typeName : ts.isExpressionWithTypeArguments(node) ? node.expression : undefined
      const type = name && checker.getSymbolAtLocation(name)
      if (type && isOurs(target(type))) named.add(target(type))
      ts.forEachChild(node, visit)
    })
    const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
    return printer.printNode(ts.EmitHint.Unspecified, statement, declaration.getSourceFile()).replace(/^export (declare )?/, '')
  })
  return texts.join('\n').replaceAll('    ', '  ')
}

/** The reports by path. What an earlier entry point has is only named. */
function reports() {
  const [written, inside] = [new Set(), new Set()]
  return entries.map(([entry], index) => {
    const [again, own] = [exported[index].filter((symbol) => written.has(symbol)), exported[index].filter((symbol) => !written.has(symbol))]
    const named = new Set()
    const parts = own.map((symbol) => declared(written.add(symbol) && symbol, named))
    if (again.length > 0) parts.push(`// also in another entry point: ${again.map((symbol) => symbol.name).join(', ')}`)
    // The set grows while it is read: these types name others.
    for (const symbol of named) {
      if (exported.some((symbols) => symbols.includes(symbol)) || inside.has(symbol)) continue
      parts.push(`// not exported\n${declared(inside.add(symbol) && symbol, named)}`)
    }
    const name = join('pawl', entry)
    const text = `# ${name}\nMade by \`npm run api\`.\n\n\`\`\`ts\n${parts.join('\n\n')}\n\`\`\`\n`
    return { path: `api/${name.replace('/', '-')}.md`, text }
  })
}

/** What is wrong. Only code counts as use: many names are also words of the prose. */
function problems() {
  const guides = ['README.md', ...filesIn('docs', /\.md$/).map((path) => `docs/${path}`)].map(read)
  const examples = filesIn('examples', /\.tsx?$/).map((path) => read(`examples/${path}`))
  const code = [...guides.flatMap((text) => text.match(/```[^]*?```|`[^`\n]+`/g) ?? []), ...examples].join('\n')
  const names = [...new Set(exported.flat().map(({ name }) => name))]
  const unused = names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))
  const stale = reports().filter(({ path, text }) => !existsSync(join(ROOT, path)) || read(path) !== text)
  return [
    names.length > MOST_NAMES && `The entry points export ${names.length} names; at most ${MOST_NAMES} are allowed.`,
    unused.length > 0 && `No guide and no example shows ${unused.join(', ')}. Show each where a reader needs it, or do not export it.`,
    stale.length > 0 &&
      `The public surface has changed: ${stale.map(({ path }) => path).join(', ')}. Run \`npm run api\`, and review the difference.`,
  ].filter(Boolean)
}

if (process.argv.includes('--check')) {
  const found = problems()
  if (found.length > 0) process.exitCode = 1
  for (const problem of found) console.error(problem)
} else {
  mkdirSync(join(ROOT, 'api'), { recursive: true })
  for (const { path, text } of reports()) writeFileSync(join(ROOT, path), text)
}
