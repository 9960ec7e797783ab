// The shop over stdio.
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { newWorld, shopServer } from './shop.ts'

serveStdio(() => shopServer(newWorld()))
