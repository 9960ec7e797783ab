// What a worker process of the desk serves. SHOP_URL says where the shop is.
import { defineWorker } from 'pawl'
import { supportDesk } from './agent.ts'
import { createShopClient } from './shop/client.ts'

export default defineWorker({
  agents: [supportDesk],
  services: () => ({ shop: createShopClient(process.env.SHOP_URL ?? 'http://127.0.0.1:4747') }),
})
