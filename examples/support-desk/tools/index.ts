// Every tool of the desk: nine that look, four that change an order, three that send something out.
import type { Tool } from 'pawl'
import { cancelOrder, changeAddress, exchangeItem, refundOrder } from './changes.ts'
import {
  checkStock,
  findCustomer,
  getOrder,
  getProduct,
  listEmails,
  listOrders,
  searchProducts,
  shippingQuote,
  trackParcel,
} from './reads.ts'
import { bookPickup, emailCustomer, sendCoupon } from './sendings.ts'

export const TOOLS: readonly Tool[] = [
  findCustomer,
  listOrders,
  getOrder,
  trackParcel,
  searchProducts,
  getProduct,
  checkStock,
  shippingQuote,
  listEmails,
  refundOrder,
  exchangeItem,
  cancelOrder,
  changeAddress,
  sendCoupon,
  bookPickup,
  emailCustomer,
]
