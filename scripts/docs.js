// `npm run docs`: writes the API reference, made from doc comments, to .docs/. With `--check` it writes nothing and fails for an export or a
// member without a doc comment, and for a link that leads nowhere.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application, ReflectionKind } from 'typedoc'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const OUT = join(ROOT, '.docs')
const { exports: entries } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const declarations = Object.values(entries).flatMap(({ types }) => (types ? [types] : []))
const sources = declarations.map((path) => join(ROOT, path.replace('/dist/', '/src/').replace(/\.d\.ts$/, '.ts')))

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
  validation: { notExported: false, invalidLink: true, notDocumented: false },
})
const project = await app.convert()
if (!project) process.exit(1)
app.validate(project)
const problems = [...undocumented(project), ...uncoded(project)]
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
