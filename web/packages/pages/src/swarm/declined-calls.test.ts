import { expect, it } from 'vitest'
import { FakeClock } from '../../test/fake-clock.ts'
import { FakeRtcNetwork } from '../../test/fake-rtc-network.ts'
import { FakeServer } from '../../test/fake-server.ts'
import { pattern } from '../../test/pattern.ts'
import { fieldsOf } from '../limits/fields.ts'
import { defaultLimits } from '../limits/index.ts'
import { directConnections } from './direct/index.ts'
import { openPage, publish, withDeclinedCalls } from './index.ts'

it('a tab that hides its address declines each call of a peer, which gets the page over the relay', async () => {
  const clock = new FakeClock()
  const server = new FakeServer(clock)
  const net = new FakeRtcNetwork(clock)
  const deps = { limits: defaultLimits, clock, random: () => 0.5 }
  const publication = await publish([{ path: 'film.bin', blob: new Blob([pattern(16_000_000)]) }])
  const connection = withDeclinedCalls(server.connect())
  const holder = openPage(publication.root, { ...deps, connection, direct: null, publication })
  const direct = () => Promise.resolve(directConnections(net.make))
  const seeker = openPage(publication.root, { ...deps, connection: server.connect(), direct })
  await clock.until(() => seeker.state.phase === 'complete')

  expect([net.carriedBytes, net.open]).toEqual([0, []])
  const [[seen], [seenBySeeker]] = [holder.state.peers, seeker.state.peers]
  const sentBy = (id = '') => server.signals.filter(({ from }) => from === id).map(({ text }) => fieldsOf(JSON.parse(text)))
  const offers = sentBy(seen?.id).filter(({ kind }) => kind === 'offer')
  expect(offers.length).toBeGreaterThan(0)
  expect(sentBy(seenBySeeker?.id)).toEqual(offers.map(({ call }) => ({ kind: 'hang_up', call, reason: 'failed' })))
  expect([seen?.direct, seenBySeeker?.direct]).toMatchObject([{ why: 'absent' }, { why: 'unanswered' }])
  expect([...seeker.state.problems, ...holder.state.problems]).toEqual([])
})

it('a connection is wrapped once, because a page that is open twice on it is shared', () => {
  const connection = new FakeServer(new FakeClock()).connect()
  expect(withDeclinedCalls(connection)).toBe(withDeclinedCalls(connection))
  expect(withDeclinedCalls(connection).state).toBe(connection.state)
})
