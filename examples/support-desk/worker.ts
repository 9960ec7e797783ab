// The worker module of the support desk. SHOP_URL is the shop's address.
import { defineWorker } from 'pawl'
import { supportDesk } from './agent.ts'
import { createShopClient } from './shop/client.ts'

export default defineWorker({
  agents: [supportDesk],
  services: () => ({ shop: createShopClient(process.env.SHOP_URL ?? 'http://127.0.0.1:4747') }),
})
