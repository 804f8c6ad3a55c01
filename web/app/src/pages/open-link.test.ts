import { beforeEach, expect, it, vi } from 'vitest'
import { openLink } from './open-link.ts'

const navigate = vi.hoisted(() => vi.fn())
vi.mock('../ui/location.ts', () => ({ navigate }))

const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
beforeEach(() => vi.stubGlobal('location', new URL('https://a.example')))

it.each([
  ['of this server', `https://a.example/p/${CID}#filename=x`, `/p/${CID}#filename=x`],
  ['of this server that names others', `https://a.example/p/${CID}#at=https://b.example`, `/p/${CID}#at=https://b.example`],
  [
    'of another server that names this one',
    `https://b.example/p/${CID}#filename=x&at=https://a.example&at=https://c.example`,
    `/p/${CID}#filename=x&at=https://c.example`,
  ],
])('a link %s opens', (_what, link, address) => {
  expect(openLink(link)).toBeNull()
  expect(navigate).toHaveBeenLastCalledWith(address)
})

it('a link of another server that does not name this one opens nothing', () => {
  navigate.mockClear()
  expect(openLink(`https://b.example/p/${CID}#at=https://c.example`)).not.toBeNull()
  expect(navigate).not.toHaveBeenCalled()
})
