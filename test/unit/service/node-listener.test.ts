// What `nodeListener` refuses before it returns a listener, and requests whose bodies others have read.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler } from 'express'
import fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { bodyOf } from '../../../src/service/input.ts'
import { nodeListener } from '../../../src/service/node.ts'
import { refusal } from '../../../src/service/problem.ts'

const handler = async (): Promise<Response> => new Response()
const listenerWith = (options: unknown) => () => nodeListener(handler, options as object)

it.each<[string, () => unknown, string]>([
  ['a duration below 0', listenerWith({ stalledAfter: -1 }), "`stalledAfter` must be a number of milliseconds or a string such as '90s'"],
  ['a unit in a name', listenerWith({ stalledAfterMs: 5 }), 'There is no option stalledAfterMs: did you mean stalledAfter?'],
  ['an unknown name', listenerWith({ foo: 2 }), 'There is no option foo: the options are stalledAfter, onRequest.'],
  ['a hook that is not a function', listenerWith({ onRequest: 'log' }), '`onRequest` must be a function, not "log".'],
  ['options that are not an object', listenerWith(5), 'The options must be an object, not 5.'],
  [
    'no handler',
    () => nodeListener(5 as never),
    'The first argument of nodeListener() must be a handler. Pass the result of createHandler()',
  ],
])('a listener is refused with %s', (_, declare, message) => {
  const refusal = { name: 'InvalidOptionError', code: 'invalid_option', message: expect.stringContaining(message) }
  expect(declare).toThrow(expect.objectContaining(refusal))
})

it('a listener accepts a duration in either form, and no options at all', () => {
  expect(nodeListener(handler, { stalledAfter: '2m' })).toBeTypeOf('function')
  expect(nodeListener(handler, { stalledAfter: 200 })).toBeTypeOf('function')
  expect(nodeListener(handler)).toBeTypeOf('function')
})

/** Answers with the JSON of the request's body, as the web handler reads it. */
const echo = nodeListener(async (request) => {
  try {
    return Response.json({ method: request.method, body: await bodyOf(request, 1_000) })
  } catch (error) {
    return refusal(error)
  }
})

async function answerOf(listener: RequestListener, init: RequestInit): Promise<{ status: number; body: Record<string, unknown> }> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/echo`, init)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const POSTED: RequestInit = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"a":1}' }

function behind(parser: RequestHandler): RequestListener {
  return express().use(parser, echo) as RequestListener
}

it.each<[string, RequestListener]>([
  ['express.json()', behind(express.json())],
  ['express.raw()', behind(express.raw({ type: () => true }))],
  ['express.text()', behind(express.text({ type: () => true }))],
  [
    'a parser that has read a part of the body',
    (request, response) => void request.once('readable', () => (request.read(3), echo(request, response))),
  ],
])('a body that %s has read before it is reported as a mistake of the server', async (_, listener) => {
  const { status, body } = await answerOf(listener, POSTED)
  expect({ status, code: body.code }).toEqual({ status: 500, code: 'body_consumed' })
  expect(body.detail).toContain('before body parsers such as express.json()')
})

it('a body that Fastify has parsed is also reported', async () => {
  const app = fastify()
  app.post('/echo', (request, reply) => {
    reply.hijack()
    echo(request.raw, reply.raw)
  })
  onTestFinished(() => app.close())
  await app.ready()
  expect(await answerOf(app.routing as RequestListener, POSTED)).toMatchObject({ status: 500, body: { code: 'body_consumed' } })
})

it('a body that a parser has left alone, or kept as it came, is read', async () => {
  const bodies: RequestInit = { ...POSTED, headers: { 'content-type': 'application/vnd.other+json' } }
  expect(await answerOf(behind(express.json()), bodies)).toMatchObject({ status: 200, body: { body: { a: 1 } } })
  const keepsRaw = express.json({ verify: (request, _, bytes) => Object.assign(request, { rawBody: bytes }) })
  expect(await answerOf(behind(keepsRaw), POSTED)).toMatchObject({ status: 200, body: { body: { a: 1 } } })
})

it('a request without a body is answered behind a parser', async () => {
  expect(await answerOf(behind(express.json()), { method: 'GET' })).toMatchObject({ status: 200, body: { method: 'GET', body: {} } })
  expect(await answerOf(behind(express.json()), { method: 'POST' })).toMatchObject({ status: 200, body: { method: 'POST', body: {} } })
})
