// pawl in a Fastify application: in a plugin whose parser leaves bodies alone. Requests come with their whole path, so the handler was made
// with `basePath: '/api/pawl'`.
import fastify, { type FastifyInstance } from 'fastify'
import { type Handler, nodeListener } from 'pawl/service'

export function fastifyApp(handler: Handler): FastifyInstance {
  const app = fastify()
  app.get('/', async () => 'the shop')
  app.register(async (plugin) => {
    const listener = nodeListener(handler)
    plugin.removeAllContentTypeParsers()
    plugin.addContentTypeParser('*', (_request, _body, done) => done(null))
    plugin.all('/api/pawl/*', (request, reply) => {
      reply.hijack()
      listener(request.raw, reply.raw)
    })
  })
  return app
}
