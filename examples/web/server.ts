// A complete server: pawl in an Express application that ends in an orderly way. docs/web.md shows it.
import express from 'express'
import { Pawl } from 'pawl/client'
import { createHandler, nodeListener } from 'pawl/service'

const pawl = await Pawl.connect()
const handler = createHandler({
  pawl,
  agents: ['support'],
  authorize: () => ({ identity: 'guest', scopes: ['read', 'send'] }), // identify your users here
})

const app = express()
app.use('/api/pawl', nodeListener(handler)) // before body parsers
app.use(express.json())
const server = app.listen(Number(process.env.PORT ?? 3000))

process.once('SIGTERM', () => {
  handler.drain() // ends the streams, whose clients reconnect elsewhere
  server.close(() => void pawl.close()) // once the requests in progress are answered
})
