// The OpenAPI document: what operations answer is typed, by named schemas that are made from pawl's own types.
import { describe, expect, it } from 'vitest'
import { ROUTES as routes } from '../../../src/service/handler.ts'
import { documentOf } from '../../../src/service/openapi.ts'

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

const document = documentOf({ routes, basePath: '' }) as unknown as { components: { schemas: Record<string, Schema> } } & Record<
  string,
  unknown
>
const { schemas } = document.components

/** The schema that a reference leads to. */
function found({ $ref, ...schema }: Schema): Schema {
  return $ref === undefined ? schema : found(schemas[$ref.replace('#/components/schemas/', '')] ?? expect.fail(`${$ref} leads nowhere`))
}

type Responses = Record<string, { content?: Record<string, { schema: Schema }> }>

interface Operation {
  operationId: string
  responses: Responses
  requestBody?: { content: { 'application/json': { schema: Schema } } }
}

const operations = Object.values(document.paths as Record<string, Record<string, Operation>>).flatMap((path) => Object.values(path))

/** What an operation answers, or the data of its events. */
function answerOf(operation: string): Schema {
  const { responses } = operations.find(({ operationId }) => operationId === operation) ?? expect.fail(operation)
  const [, response] = Object.entries(responses).find(([status]) => status.startsWith('2')) ?? expect.fail(operation)
  const [content] = Object.values(response.content ?? {})
  const { properties = {}, ...schema } = content?.schema ?? expect.fail(operation)
  return properties.data?.contentSchema ?? found({ properties, ...schema })
}

describe('the document', () => {
  it('the document lists the members of every JSON answer', () => {
    const typed = routes.filter(({ answer }) => answer.schema === 'typed')
    expect(typed.length).toBeGreaterThan(25)
    for (const { operation } of typed) {
      const { properties = {}, oneOf, anyOf } = answerOf(operation)
      expect(Object.keys(properties).length > 0 || oneOf || anyOf, operation).toBeTruthy()
    }
    const others = routes.filter(({ answer }) => answer.schema && answer.schema !== 'typed').map(({ operation }) => operation)
    expect(others.toSorted()).toEqual(['getBlob', 'watchChat', 'watchFeed', 'watchSession'])
  })

  it('the document names every answer, so that generators need not invent names', () => {
    const unnamed = operations.filter(({ responses }) =>
      Object.values(responses).some(({ content }) => content?.['application/json'] && !content['application/json'].schema.$ref),
    )
    expect(unnamed.map(({ operationId }) => operationId)).toEqual(['getBlob'])
  })

  it('the document has no reference that leads nowhere, and no schema that nothing refers to', () => {
    const references = new Set(JSON.stringify(document).match(/#\/components\/schemas\/\w+/g))
    for (const $ref of references) found({ $ref })
    expect(Object.keys(schemas).filter((name) => !references.has(`#/components/schemas/${name}`))).toEqual([])
  })

  it('the document tells the events of a session apart by their type', () => {
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

  it('the document describes the answer of a run', () => {
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

  it('the document names the outcomes of a run, and the variants of every other union that a member tells apart', () => {
    const { discriminator } = schemas.RunAnswer ?? expect.fail('RunAnswer')
    expect(discriminator?.mapping.completed).toBe('#/components/schemas/RunAnswerCompleted')
    for (const [name, { discriminator: by }] of Object.entries(schemas)) {
      for (const $ref of Object.values(by?.mapping ?? {})) expect(found({ $ref }).properties?.[by?.propertyName ?? ''], name).toBeDefined()
    }
    expect(schemas.ImageBlock?.properties?.source?.discriminator?.mapping).toEqual({
      base64: '#/components/schemas/ImageBlockSourceBase64',
      url: '#/components/schemas/ImageBlockSourceUrl',
    })
  })

  it('the document requires a digest only for calls that wait for approval or with a question', () => {
    for (const name of ['WaitingCall', 'ListedPendingCall']) {
      const { discriminator } = schemas[name] ?? expect.fail(name)
      expect(discriminator?.mapping).toEqual({
        approval: `#/components/schemas/${name}Approval`,
        client: `#/components/schemas/${name}Client`,
        question: `#/components/schemas/${name}Question`,
        unknown: `#/components/schemas/${name}Unknown`,
      })
      expect(schemas[`${name}Approval`]?.properties?.digest).toMatchObject({ type: 'string' })
      expect(schemas[`${name}Approval`]?.required).toContain('digest')
      expect(schemas[`${name}Question`]?.required).toEqual(expect.arrayContaining(['digest', 'question']))
    }
    expect(schemas.WaitingCallClient?.properties).not.toHaveProperty('digest')
    expect(schemas.ListedPendingCallUnknown?.properties?.digest).toMatchObject({ type: ['string', 'null'] })
  })

  it('the document says who sees the reason for a denial', () => {
    const { requestBody } = operations.find(({ operationId }) => operationId === 'denyCall') ?? expect.fail('denyCall')
    const { reason } = requestBody?.content['application/json'].schema.properties ?? {}
    expect(reason).toMatchObject({ description: expect.stringContaining('shown to the model') })
  })

  it('the document says which numbers are whole, and has a type for every constant', () => {
    expect(schemas.ModelCompletedEvent?.properties).toMatchObject({
      v: { type: 'integer', const: 1 },
      seq: { type: 'integer' },
      type: { type: 'string', const: 'model_completed' },
    })
    expect(schemas.ListedSession?.properties?.forkedSeq).toMatchObject({ type: ['integer', 'null'] })
    // A provider may report a fraction of a token.
    expect(schemas.Usage?.properties?.input_tokens).toMatchObject({ type: 'number' })
    expect(JSON.stringify(schemas)).not.toContain('{"const"')
  })

  it('the document accepts any JSON as the value of a tool, whether or not the event has one', () => {
    expect(schemas.ToolCompletedEvent?.properties?.value).toEqual({ description: expect.any(String) })
    expect(schemas.ToolCompletedEvent?.required).not.toContain('value')
    expect(schemas.WaitingCallApproval?.required).toContain('input')
  })

  it('the document describes times in lists as text, and members that may be null as such', () => {
    expect(schemas.ListedSession?.properties?.createdAt).toMatchObject({ type: 'string', format: 'date-time' })
    expect(schemas.ListedSession?.properties?.usd).toMatchObject({ type: ['number', 'null'] })
    expect(schemas.ListedSession?.required).toContain('sessionId')
  })
})
