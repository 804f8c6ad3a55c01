// A small internet in network namespaces: a public network with a server's machine, and two homes behind
// routers that translate addresses and let no packet in that nobody inside has asked for.

import { randomInt } from 'node:crypto'

import { run } from './packed.mjs'

/** Addresses for documentation, as far as the outside of the homes is concerned. */
export const SERVER = '203.0.113.1'
const ROUTERS = ['203.0.113.11', '203.0.113.12']

/** The NAT of a home's router, as nftables rules. */
const RULES = `
table ip home {
  chain out {
    type nat hook postrouting priority srcnat
    oifname "wan" masquerade
  }
  chain in {
    type filter hook forward priority filter; policy drop
    ct state established,related accept
    iifname "lan" accept
  }
  # As on every home's router. An answer to a stranger would also keep a browser inside from using this port.
  chain self {
    type filter hook input priority filter; policy drop
    ct state established,related accept
    iifname "lan" accept
  }
}
`

const ip = (...args) => run('ip', args)

/** Makes the networks until the end. Returns commands that run a program on the server's machine, and in each home. */
export function createHomes(atEnd) {
  const id = `nat${process.pid}${randomInt(1_000)}`
  const names = { internet: `${id}i`, routers: [`${id}r0`, `${id}r1`], homes: [`${id}h0`, `${id}h1`] }
  for (const name of [names.internet, ...names.routers, ...names.homes]) {
    ip('netns', 'add', name)
    atEnd(() => ip('netns', 'delete', name))
    ip('-n', name, 'link', 'set', 'lo', 'up')
  }
  ip('-n', names.internet, 'link', 'add', 'net', 'type', 'bridge')
  ip('-n', names.internet, 'addr', 'add', `${SERVER}/24`, 'dev', 'net')
  ip('-n', names.internet, 'link', 'set', 'net', 'up')
  for (const [index, router] of names.routers.entries()) {
    const home = names.homes[index]
    const lan = `10.${index + 1}.0`
    ip('-n', names.internet, 'link', 'add', `home${index}`, 'type', 'veth', 'peer', 'name', 'wan', 'netns', router)
    ip('-n', names.internet, 'link', 'set', `home${index}`, 'master', 'net', 'up')
    ip('-n', router, 'addr', 'add', `${ROUTERS[index]}/24`, 'dev', 'wan')
    ip('-n', router, 'link', 'set', 'wan', 'up')
    ip('-n', router, 'link', 'add', 'lan', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', home)
    ip('-n', router, 'addr', 'add', `${lan}.1/24`, 'dev', 'lan')
    ip('-n', router, 'link', 'set', 'lan', 'up')
    ip('-n', home, 'addr', 'add', `${lan}.2/24`, 'dev', 'eth0')
    ip('-n', home, 'link', 'set', 'eth0', 'up')
    ip('-n', home, 'route', 'add', 'default', 'via', `${lan}.1`)
    run(...within(router, 'sysctl', '--quiet', '--write', 'net.ipv4.ip_forward=1'))
    run(...within(router, 'nft', '--file', '-'), { input: RULES })
  }
  return {
    onServer: (...line) => within(names.internet, ...line).flat(),
    inHomes: names.homes.map(
      (home) =>
        (...line) =>
          within(home, ...line).flat(),
    ),
  }
}

/** A program and its arguments, in a namespace. */
function within(name, ...line) {
  return ['ip', ['netns', 'exec', name, ...line]]
}
