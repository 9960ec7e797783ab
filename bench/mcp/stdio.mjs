// The benchmark's server over stdio.
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { benchServer } from './server.mjs'

serveStdio(() => benchServer({ bytes: Number(process.argv[2]) }))
