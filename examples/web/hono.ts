// pawl in a Hono application: `mount` removes the path before the handler sees the request.
import { Hono } from 'hono'
import type { Handler } from 'pawl/service'

export function honoApp(handler: Handler): Hono {
  const app = new Hono()
  app.get('/', (context) => context.text('the shop'))
  app.mount('/api/pawl', handler)
  return app
}
