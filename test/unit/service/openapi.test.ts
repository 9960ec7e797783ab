// The OpenAPI document: what operations answer is typed, by named schemas that are made from pawl's own types.
import { describe, expect, it } from 'vitest'
import { documentOf } from '../../../src/service/openapi.ts'
import { CHANGE_ROUTES } from '../../../src/service/routes/changes.ts'
import { LIST_ROUTES } from '../../../src/service/routes/lists.ts'
import { SESSION_ROUTES } from '../../../src/service/routes/sessions.ts'
import { UI_ROUTES } from '../../../src/service/routes/ui.ts'
import { WATCH_ROUTES } from '../../../src/service/routes/watch.ts'

interface Schema {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  oneOf?: Schema[]
  anyOf?: Schema[]
  const?: unknown
  contentSchema?: Schema
  discriminator?: { propertyName: string; mapping: Record<string, string> }
}

const routes = [...SESSION_ROUTES, ...WATCH_ROUTES, ...CHANGE_ROUTES, ...LIST_ROUTES, ...UI_ROUTES]
const document = documentOf({ routes, basePath: '' }) as unknown as { components: { schemas: Record<string, Schema> } } & Record<
  string,
  unknown
>
const { schemas } = document.components

/** The schema that a reference leads to. */
function found({ $ref, ...schema }: Schema): Schema {
  return $ref === undefined ? schema : found(schemas[$ref.replace('#/components/schemas/', '')] ?? expect.fail(`${$ref} leads nowhere`))
}

/** What an operation answers, or the data of its events. */
function answerOf(operation: string): Schema {
  const paths = document.paths as Record<string, Record<string, { operationId: string; responses: Record<string, unknown> }>>
  const methods = Object.values(paths).flatMap((path) => Object.values(path))
  const { responses } = methods.find(({ operationId }) => operationId === operation) ?? expect.fail(operation)
  const [, response] = Object.entries(responses).find(([status]) => status.startsWith('2')) ?? expect.fail(operation)
  const [content] = Object.values((response as { content: Record<string, { schema: Schema }> }).content)
  const { properties = {}, ...schema } = content?.schema ?? expect.fail(operation)
  return properties.data?.contentSchema ?? found({ properties, ...schema })
}

describe('the document', () => {
  it('says of every operation that answers JSON which members it has', () => {
    const typed = routes.filter(({ answer }) => answer.schema === 'typed')
    expect(typed.length).toBeGreaterThan(25)
    for (const { operation } of typed) {
      const { properties = {}, oneOf, anyOf } = answerOf(operation)
      expect(Object.keys(properties).length > 0 || oneOf || anyOf, operation).toBeTruthy()
    }
    const others = routes.filter(({ answer }) => answer.schema && answer.schema !== 'typed').map(({ operation }) => operation)
    expect(others.toSorted()).toEqual(['getBlob', 'watchChat', 'watchFeed', 'watchSession'])
  })

  it('has no reference that leads nowhere, and no schema that nothing refers to', () => {
    const references = new Set(JSON.stringify(document).match(/#\/components\/schemas\/\w+/g))
    for (const $ref of references) found({ $ref })
    expect(Object.keys(schemas).filter((name) => !references.has(`#/components/schemas/${name}`))).toEqual([])
  })

  it('tells the events of a session apart by their type', () => {
    const { oneOf = [], discriminator } = schemas.SessionEvent ?? {}
    expect(discriminator?.propertyName).toBe('type')
    expect(Object.keys(discriminator?.mapping ?? {})).toHaveLength(oneOf.length)
    expect(oneOf.length).toBeGreaterThan(40)
    for (const [type, $ref] of Object.entries(discriminator?.mapping ?? {})) {
      const { properties = {}, required = [] } = found({ $ref })
      expect(properties.type?.const).toBe(type)
      expect(required).toEqual(expect.arrayContaining(['seq', 'at', 'type', 'v']))
    }
    expect(found(answerOf('listEvents').properties?.items?.items ?? {}).discriminator).toBeDefined()
    expect(answerOf('watchSession').anyOf?.map(found)).toHaveLength(2)
  })

  it('says what a run has answered', () => {
    const variants = [...(answerOf('awaitRun').oneOf ?? []), ...(answerOf('awaitRun').anyOf ?? [])].map(found)
    const completed = variants.find(({ properties }) => properties?.status?.const === 'completed')
    expect(completed?.properties?.text).toMatchObject({ type: 'string' })
    expect(variants.map(({ properties }) => properties?.status?.const).toSorted()).toEqual([
      'completed',
      'failed',
      'interrupted',
      'pending',
      'rejected',
      'waiting',
    ])
  })

  it('writes times of lists as text, and what may be null as that', () => {
    expect(schemas.ListedSession?.properties?.createdAt).toMatchObject({ type: 'string', format: 'date-time' })
    expect(schemas.ListedSession?.properties?.usd).toMatchObject({ type: ['number', 'null'] })
    expect(schemas.ListedSession?.required).toContain('sessionId')
  })
})
