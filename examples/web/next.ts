// pawl in a Next.js application: app/api/pawl/[...path]/route.ts exports these. The handler was made with `basePath: '/api/pawl'`.
//
//   export const { GET, POST } = routeHandlers(createHandler({ pawl, authorize, basePath: '/api/pawl' }))
//   export const runtime = 'nodejs'
import type { Handler } from 'pawl/service'

export function routeHandlers(handler: Handler): { GET: Handler; POST: Handler } {
  return { GET: handler, POST: handler }
}
