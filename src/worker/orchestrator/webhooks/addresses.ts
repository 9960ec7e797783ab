// Which addresses a webhook may reach. Tenants may register targets, so by default none inside the network of the worker.
import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns'
import { BlockList, isIP, isIPv6 } from 'node:net'

/** The target's name leads to an address that is not public. */
export class PrivateAddressError extends Error {
  override readonly name = 'PrivateAddressError'
}

/** Special-purpose addresses, by the registries of RFC 6890: loopback, private networks, link-local (metadata services), multicast, reserved. */
const PRIVATE = new BlockList()
const IPV4: [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]
/** Outside 2000::/3 nothing is public; of it, these are not. IPv4 addresses in IPv6 would need the rules above, so they are refused. */
const IPV6: [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
]
const GLOBAL_UNICAST = new BlockList()
for (const [net, prefix] of IPV4) PRIVATE.addSubnet(net, prefix, 'ipv4')
for (const [net, prefix] of IPV6) PRIVATE.addSubnet(net, prefix, 'ipv6')
GLOBAL_UNICAST.addSubnet('2000::', 3, 'ipv6')

/** Whether anyone on the internet could reach the address. */
export function isPublic(address: string): boolean {
  if (isIP(address) === 0) return false
  return isIPv6(address) ? GLOBAL_UNICAST.check(address, 'ipv6') && !PRIVATE.check(address, 'ipv6') : !PRIVATE.check(address, 'ipv4')
}

type Found = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void

/**
 * Looks a name up as Node does, and refuses it if any of its addresses is private: the connection is then made to an address that was
 * checked, whatever the name leads to a moment later.
 */
export function publicLookup(hostname: string, options: LookupOptions, found: Found): void {
  systemLookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return found(error, '')
    const hidden = addresses.find(({ address }) => !isPublic(address))
    if (hidden) return found(new PrivateAddressError(`${hostname} leads to the private address ${hidden.address}`), '')
    const [first] = addresses
    return options.all || !first ? found(null, addresses) : found(null, first.address, first.family)
  })
}
