// The example of sign-in in docs/mcp.md, compiled and run by our tests.
// #region guide
import { mcp, signIn } from '../../src/tools/index.ts'

interface Vault {
  tokenOf(user: string): Promise<string | undefined>
}

export const mail = mcp.withTypes<{ context: { user: string }; services: { vault: Vault } }>()({
  name: 'mail',
  transport: { type: 'http', url: process.env.MAIL_URL ?? 'https://mail.example/mcp' },
  effects: { 'list_*': 'read', send_mail: 'external' },
  async auth(ctx, { refused }) {
    const { user } = ctx.context
    const token = refused ? undefined : await ctx.services.vault.tokenOf(user)
    return token ?? signIn(`https://app.example/connect/mail?user=${user}`)
  },
})
// #endregion
