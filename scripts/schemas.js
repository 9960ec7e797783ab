// Part of the build: writes src/service/answer-schemas.ts, the JSON schemas of what the routes answer, made from the types in
// src/service/answers.ts. It is not kept in git, because every change of a public type or its comment would change it. Takes some seconds, so it
// does nothing while no source is newer.
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const ENTRY = join(ROOT, 'src/service/answers.ts')
const OUT = join(ROOT, 'src/service/answer-schemas.ts')

if (isUpToDate()) process.exit(0)

function isUpToDate() {
  if (!existsSync(OUT)) return false
  const made = statSync(OUT).mtimeMs
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true }).map((path) => join(ROOT, 'src', path))
  return [...sources, fileURLToPath(import.meta.url)].every((path) => !/\.[jt]s$/.test(path) || statSync(path).mtimeMs <= made)
}

const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'))
const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [ENTRY] }, ts.sys, ROOT)
const program = ts.createProgram([ENTRY], { ...options, noEmit: true })
const checker = program.getTypeChecker()
const components = {}
/** The type that each component was made from: two types must not have one name. */
const owners = new Map()

/** Types that are written as they are in JSON. */
const OWN = { Json: {}, JsonObject: { type: 'object', additionalProperties: {} }, Date: { type: 'string', format: 'date-time' } }

/** Members that number something in a session. TypeScript has one type for all numbers; others, such as tokens, may have fractions. */
const INTEGER = /^(seq|run|turns?|attempts?|checkpoint|version)$|(Seq|Turn|Version)$/

/** `place`: what the variants are named after if the type is a union without a name. */
function schemaOf(type, place) {
  const name = nameOf(type)
  if (name !== undefined && Object.hasOwn(OWN, name)) return { ...OWN[name] }
  if (name === undefined || !isComponent(type)) return inlineOf(type, place)
  if (owners.get(name) === undefined) {
    owners.set(name, type)
    components[name] = {}
    components[name] = { ...described(type.aliasSymbol ?? type.symbol), ...inlineOf(type, name) }
  } else if (owners.get(name) !== type) throw new Error(`Two types have the name ${name}: rename one of them.`)
  return { $ref: `#/components/schemas/${name}` }
}

/** The name that a type was declared with, with those of its arguments in front: `ListedSessionPage`. */
function nameOf(type) {
  const symbol = type.aliasSymbol ?? (type.symbol && !type.symbol.name.startsWith('__') ? type.symbol : undefined)
  if (!symbol || type.flags & ts.TypeFlags.EnumLike) return undefined
  const given = (type.aliasSymbol ? type.aliasTypeArguments : checker.getTypeArguments?.(type)) ?? []
  if (symbol.name === 'Array' || symbol.name === 'ReadonlyArray') return undefined
  const names = given.filter(({ flags }) => !(flags & ts.TypeFlags.Unknown) && !(flags & ts.TypeFlags.TypeParameter)).map(nameOf)
  if (names.includes(undefined) || ['Record', 'Pick', 'Omit', 'Extract', 'Exclude', 'Readonly', 'Partial'].includes(symbol.name))
    return undefined
  return names.join('') + symbol.name
}

function isComponent(type) {
  if (type.flags & (ts.TypeFlags.StringLiteral | ts.TypeFlags.NumberLiteral | ts.TypeFlags.BooleanLiteral)) return false
  const declared = (type.aliasSymbol ?? type.symbol)?.declarations?.[0]?.getSourceFile().fileName ?? ''
  return declared.startsWith(join(ROOT, 'src'))
}

/** `name`: of the component that it becomes, or the place where it is. */
function inlineOf(type, name) {
  const { flags } = type
  if (flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return {}
  if (flags & ts.TypeFlags.StringLiteral) return { type: 'string', const: type.value }
  if (flags & ts.TypeFlags.NumberLiteral) return { type: Number.isInteger(type.value) ? 'integer' : 'number', const: type.value }
  if (flags & ts.TypeFlags.BooleanLiteral) return { type: 'boolean', const: type.intrinsicName === 'true' }
  if (flags & ts.TypeFlags.String || flags & ts.TypeFlags.TemplateLiteral) return { type: 'string' }
  if (flags & ts.TypeFlags.Number) return { type: 'number' }
  if (flags & ts.TypeFlags.Boolean) return { type: 'boolean' }
  if (flags & ts.TypeFlags.Null) return { type: 'null' }
  if (type.isUnion()) return unionOf(type, name)
  if (checker.isTupleType(type)) {
    const items = checker.getTypeArguments(type).map((one) => schemaOf(one))
    return { type: 'array', prefixItems: items, minItems: items.length, maxItems: items.length }
  }
  if (checker.isArrayType(type)) return { type: 'array', items: schemaOf(checker.getTypeArguments(type)[0]) }
  if (flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) return objectOf(type, name)
  throw new Error(`There is no schema for ${checker.typeToString(type)}.`)
}

function unionOf(type, name) {
  const members = type.types.filter(({ flags }) => !(flags & ts.TypeFlags.Undefined))
  const [first] = members
  if (members.length === 1 && first) return schemaOf(first)
  // Together with `undefined`, it no longer has its name.
  if (json.types.every((one) => members.includes(one))) return {}
  const isNullable = members.some(({ flags }) => flags & ts.TypeFlags.Null)
  const others = members.filter(({ flags }) => !(flags & ts.TypeFlags.Null))
  const booleans = others.filter(({ flags }) => flags & ts.TypeFlags.BooleanLiteral)
  const rest = booleans.length === 2 ? others.filter((one) => !booleans.includes(one)) : others
  const literals = rest.filter((one) => one.isStringLiteral())
  const objects = rest.filter((one) => !one.isStringLiteral())
  const discriminator = objects.length > 1 && literals.length === 0 && booleans.length < 2 ? discriminatorOf(objects) : undefined
  const schemas = [
    ...(literals.length > 0 ? [{ type: 'string', enum: literals.map(({ value }) => value) }] : []),
    ...(booleans.length === 2 ? [{ type: 'boolean' }] : []),
    ...objects.map((one) => (discriminator && name ? variantOf(one, discriminator, name) : schemaOf(one))),
  ]
  const schema =
    schemas.length === 1 ? schemas[0] : { [discriminator ? 'oneOf' : 'anyOf']: schemas, ...mappingOf(schemas, objects, discriminator) }
  if (!isNullable) return schema
  if (typeof schema.type === 'string' && !schema.enum && schema.const === undefined) return { ...schema, type: [schema.type, 'null'] }
  return { anyOf: [schema, { type: 'null' }] }
}

/** The member that tells the objects of a union apart. */
function discriminatorOf(objects) {
  return ['type', 'status', 'kind', 'for', 'do', 'step'].find((member) => {
    const values = objects.map((one) => literalOf(one, member))
    return values.every((value) => value !== undefined) && new Set(values).size === values.length
  })
}

function literalOf(object, member) {
  const property = checker.getPropertyOfType(object, member)
  const type = property && checker.getTypeOfSymbol(property)
  return type?.isStringLiteral() ? type.value : undefined
}

/** A component for each variant of a named union: `ToolCompletedEvent` of `SessionEvent`. */
function variantOf(object, discriminator, union) {
  if (nameOf(object) !== undefined && isComponent(object)) return schemaOf(object)
  const value = literalOf(object, discriminator)
  const words = value.split(/[_\s]/).map(capitalized)
  const name = union === 'SessionEvent' ? `${words.join('')}Event` : `${union}${words.join('')}`
  if (owners.has(name)) throw new Error(`Two types have the name ${name}: rename one of them.`)
  owners.set(name, object)
  components[name] = {}
  components[name] = objectOf(object, name)
  return { $ref: `#/components/schemas/${name}` }
}

function mappingOf(schemas, objects, discriminator) {
  if (!discriminator || !schemas.every(({ $ref }) => $ref)) return {}
  const mapping = Object.fromEntries(objects.map((one, n) => [literalOf(one, discriminator), schemas[n].$ref]))
  return { discriminator: { propertyName: discriminator, mapping } }
}

/** `place`: where it is. */
function objectOf(type, place) {
  const properties = {}
  const required = []
  for (const property of checker.getPropertiesOfType(type)) {
    const declared = checker.getTypeOfSymbol(property)
    if (declared.getCallSignatures().length > 0 || declared.flags & ts.TypeFlags.Undefined) continue
    const schema = numbered(schemaOf(declared, place && `${place}${capitalized(property.name)}`), property.name)
    const { description } = described(property)
    // The description of a reference would hide that of what it refers to.
    properties[property.name] = { ...schema, ...(description && { description }) }
    if (!(property.flags & ts.SymbolFlags.Optional) && !mayBeUndefined(declared)) required.push(property.name)
  }
  const index = checker.getIndexTypeOfType(type, ts.IndexKind.String)
  return {
    type: 'object',
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
    ...(index && { additionalProperties: schemaOf(index) }),
  }
}

function numbered(schema, member) {
  if (!INTEGER.test(member)) return schema
  if (schema.type === 'number') return { ...schema, type: 'integer' }
  return Array.isArray(schema.type) && schema.type[0] === 'number' ? { ...schema, type: ['integer', 'null'] } : schema
}

function capitalized(word) {
  return word[0].toUpperCase() + word.slice(1)
}

/** JSON has no members that are undefined. */
function mayBeUndefined(type) {
  const absent = ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.Undefined
  return Boolean(type.flags & absent) || (type.isUnion() && type.types.some(({ flags }) => flags & ts.TypeFlags.Undefined))
}

function described(symbol) {
  const text = symbol ? ts.displayPartsToString(symbol.getDocumentationComment(checker)).replaceAll(/\s+/g, ' ').trim() : ''
  return text === '' ? {} : { description: text }
}

const json = declaredIn('src/session/json.ts', 'Json')
const answers = Object.fromEntries(
  checker
    .getPropertiesOfType(declaredIn('src/service/answers.ts', 'OperationAnswers'))
    .map((property) => [property.name, schemaOf(checker.getTypeOfSymbol(property))]),
)
/** The type that a file of ours exports under this name. */
function declaredIn(file, exported) {
  const module = checker.getSymbolAtLocation(program.getSourceFile(join(ROOT, file)))
  return checker.getDeclaredTypeOfSymbol(checker.getExportsOfModule(module).find(({ name }) => name === exported))
}

const sorted = Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1)))
const text = `// Made by scripts/schemas.js from answers.ts: do not edit.
import type { JsonObject } from '../session/json.ts'
import type { OperationAnswers } from './answers.ts'

/** The schema of each operation's answer. */
export const ANSWERS: Readonly<Record<keyof OperationAnswers, JsonObject>> = ${JSON.stringify(answers, null, 2)}

/** The schemas that they refer to. */
export const COMPONENTS: JsonObject = ${JSON.stringify(sorted, null, 2)}
`
// Simultaneous builds find all of it or the one before.
const mine = `${OUT}.${process.pid}.tmp`
writeFileSync(mine, text)
renameSync(mine, OUT)
