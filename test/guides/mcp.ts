// The example of docs/mcp.md, compiled and run by our tests: tools of MCP servers.
// #region guide
import { mcp } from '../../src/tools/index.ts'

export const shop = mcp({
  name: 'shop',
  transport: {
    type: 'http',
    url: process.env.SHOP_URL ?? 'http://127.0.0.1:8080/mcp',
    headers: () => ({ authorization: `Bearer ${process.env.SHOP_TOKEN}` }),
  },
  effects: { 'find_*': 'read', get_refund: 'read', create_refund: { effect: 'external', timeout: '30s' } },
  key: { create_refund: 'client_token' },
  verify: {
    create_refund: {
      tool: 'get_refund',
      input: (_input, ctx) => ({ token: ctx.idempotencyKey }),
      verdict({ structuredContent }) {
        const { refund } = structuredContent as { refund: { id: string } | null }
        return refund ? { happened: true, result: refund } : { happened: false }
      },
    },
  },
})

export const files = mcp({
  name: 'files',
  transport: { type: 'stdio', command: 'node_modules/.bin/mcp-server-filesystem', args: [process.env.FILES ?? '/srv/files'] },
  effects: 'annotations',
  tools: { block: ['move_file'] },
})
// #endregion
