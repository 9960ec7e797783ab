// pawl in an Express application: `use` removes the path, and the handler reads the body itself, so it comes before body parsers.
import express, { type Express } from 'express'
import { type Handler, nodeListener } from 'pawl/service'

export function expressApp(handler: Handler): Express {
  const app = express()
  app.use('/api/pawl', nodeListener(handler))
  app.use(express.json())
  app.get('/', (_, response) => void response.send('the shop'))
  return app
}
