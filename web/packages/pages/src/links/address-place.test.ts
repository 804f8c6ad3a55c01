import { expect, it } from 'vitest'
import { placeOfAddress, placeOfPage } from './address-place.ts'

it.each([
  ['internet', ['192.0.2.1:4433', '172.32.0.1:1', '11.0.0.1:1', '100.128.0.1:1', '[2001:db8::1]:9', '[2a00::1]:9']],
  [
    'network',
    ['10.1.2.3:1', '192.168.0.1:1', '172.16.0.1:1', '172.31.0.1:1', '100.64.0.1:1', '169.254.1.1:1', '[fd00::1]:9', '[fe80::1]:9'],
  ],
  ['machine', ['127.0.0.1:1', '0.0.0.0:1', '[::1]:1', '[::]:1', '127.1:1', '0x7f000001:1', '2130706433:1', '017700000001:1']],
  ['unknown', ['localhost:1', 'example.org:443', 'a.local:1', '[::ffff:10.0.0.1]:1', '[64:ff9b::a00:1]:1', '1.2.3.4.5:1', '']],
])('an address can be in the place: %s', (place, addresses) => {
  expect(addresses.filter((address) => placeOfAddress(address) !== place)).toEqual([])
})

it.each([
  ['internet', ['example.org', 'localhost.example.org', 'a.local.example.org', '192.0.2.1', '[2001:db8::1]', '[::ffff:a00:1]']],
  ['network', ['a.local', '192.168.0.1', '[fd00::1]']],
  ['machine', ['localhost', 'a.localhost', '127.0.0.1', '[::1]']],
])('a page can be in the place: %s', (place, hosts) => {
  expect(hosts.filter((host) => placeOfPage(host) !== place)).toEqual([])
})
