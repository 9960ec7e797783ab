// `npm run docs`: writes the API reference, made from doc comments, to .docs/. With `--check` it writes nothing and fails for a public type
// that its entry point does not export, for an export or a member without a doc comment, and for a link that leads nowhere.
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application, ReflectionKind } from 'typedoc'
import ts from 'typescript'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DIST = join(ROOT, 'dist')
const OUT = join(ROOT, '.docs')
const { exports: entries } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const declarations = Object.values(entries).flatMap(({ types }) => (types ? [join(ROOT, types)] : []))
const sources = declarations.map((path) => path.replace(DIST, join(ROOT, 'src')).replace(/\.d\.ts$/, '.ts'))

/** The folders that an entry point documents. What it exports from other folders is documented by their entry points. */
const HOMES = {
  'index.d.ts': ['agent', 'options', 'session'],
  'client/index.d.ts': ['client', 'connect', 'store'],
  'worker/index.d.ts': ['worker'],
  'models/index.d.ts': ['models'],
  'service/index.d.ts': ['service'],
  'ui/index.d.ts': ['ui'],
  'testing/index.d.ts': ['testing', 'local'],
}

const isCheck = process.argv.includes('--check')
const app = await Application.bootstrap({
  entryPoints: sources,
  tsconfig: join(ROOT, 'tsconfig.build.json'),
  name: 'pawl',
  readme: 'none',
  excludePrivate: true,
  excludeExternals: true,
  // The check is about comments: it also passes in a copy that has no remote.
  ...(isCheck && { disableGit: true, sourceLinkTemplate: '{path}#{line}' }),
  validation: { notExported: true, invalidLink: true, notDocumented: false },
})
const project = await app.convert()
if (!project) process.exit(1)
app.validate(project)
const problems = [...unexported(), ...undocumented(project), ...uncoded(project)]
for (const problem of problems) console.error(problem)
if (problems.length > 0 || app.logger.hasWarnings() || app.logger.hasErrors()) process.exit(1)
if (!isCheck) {
  await app.generateDocs(project, OUT)
  console.log(`The reference is in ${join(OUT, 'index.html')}`)
}

/** Exports and members without a comment. The comment of a type covers the members of its anonymous parts. */
function undocumented(all) {
  const kinds =
    ReflectionKind.Variable |
    ReflectionKind.Function |
    ReflectionKind.Class |
    ReflectionKind.Interface |
    ReflectionKind.TypeAlias |
    ReflectionKind.Property |
    ReflectionKind.Method |
    ReflectionKind.Accessor
  return all
    .getReflectionsByKind(kinds)
    .filter((one) => !one.inheritedFrom && !one.flags.isExternal && !one.parent?.kindOf(ReflectionKind.TypeLiteral))
    .filter((one) => !(one.name === 'name' && one.parent?.kindOf(ReflectionKind.Class)))
    .filter(
      (one) =>
        !one.hasComment() &&
        !one.type?.declaration?.hasComment() &&
        !(one.signatures ?? one.type?.declaration?.signatures)?.some((signature) => signature.hasComment()),
    )
    .map((one) => `${one.getFullName()} has no doc comment (${one.sources?.[0]?.fileName})`)
}

/** `@throws` without a code, or with one that docs/errors.md does not list. */
function uncoded(all) {
  const page = readFileSync(join(ROOT, 'docs/errors.md'), 'utf8')
  return Object.values(all.reflections).flatMap((one) =>
    (one.comment?.getTags('@throws') ?? []).flatMap(({ content }) => {
      const codes = content.flatMap(({ kind, text }) => (kind === 'code' && /^`[a-z]+(_[a-z]+)+`$/.test(text) ? [text] : []))
      const unknown = codes.filter((code) => !page.includes(code))
      if (codes.length === 0) return [`${one.getFullName()}: @throws names no code`]
      return unknown.map((code) => `${one.getFullName()}: @throws names ${code}, which docs/errors.md does not have`)
    }),
  )
}

/** Types that the signatures of an entry point's own exports name but that it does not export. */
function unexported() {
  const program = ts.createProgram(declarations, {
    module: ts.ModuleKind.NodeNext,
    skipLibCheck: true,
    strict: true,
    allowImportingTsExtensions: true,
    noEmit: true,
  })
  const checker = program.getTypeChecker()
  const resolved = (symbol) => (symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol)
  const isOurs = (symbol) => symbol?.declarations?.some((one) => one.getSourceFile().fileName.startsWith(DIST))
  return declarations.flatMap((path) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(path))
    const exported = new Set(checker.getExportsOfModule(module).map(resolved))
    const missing = new Map()
    const entry = relative(DIST, path)
    const isAtHome = (declaration) => HOMES[entry].includes(relative(DIST, declaration.getSourceFile().fileName).split('/')[0])
    for (const symbol of exported) {
      for (const declaration of symbol.declarations?.filter(isAtHome) ?? []) visit(declaration, symbol)
    }
    function visit(node, owner) {
      if (node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword)) return
      const name = ts.isTypeReferenceNode(node) ? node.typeName : ts.isExpressionWithTypeArguments(node) ? node.expression : undefined
      const named = name && resolved(checker.getSymbolAtLocation(name))
      const isOwnParameter = named && (named.flags & ts.SymbolFlags.TypeParameter) !== 0
      if (named && isOurs(named) && !isOwnParameter && !exported.has(named)) missing.set(named.name, owner.name)
      ts.forEachChild(node, (child) => visit(child, owner))
    }
    return [...missing].map(([name, owner]) => `${entry} does not export ${name}, which ${owner} names`)
  })
}
