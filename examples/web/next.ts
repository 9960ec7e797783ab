// pawl in a Next.js application: app/api/pawl/[...path]/route.ts exports these.
//
//   export const { GET, POST } = routeHandlers(async () =>
//     createHandler({ pawl: await Pawl.connect(), authorize, basePath: '/api/pawl' }),
//   )
import type { Handler } from 'pawl/service'

type RouteHandler = (request: Request) => Promise<Response>

/** `make` is called at the first request, because `next build` loads the file, too; after a failure, it is called again. */
export function routeHandlers(make: () => Promise<Handler>): { GET: RouteHandler; POST: RouteHandler } {
  let made: Promise<Handler> | undefined
  const handler: RouteHandler = async (request) => {
    made ??= make()
    made.catch(() => (made = undefined))
    return (await made)(request)
  }
  return { GET: handler, POST: handler }
}
