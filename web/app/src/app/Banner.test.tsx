// @vitest-environment happy-dom
import { signal } from '@preact/signals'
import { render } from 'preact'
import { act } from 'preact/test-utils'
import { describe, expect, it } from 'vitest'
import { Banner } from './Banner.tsx'
import type { Connection, Site } from '../ui/site.ts'

describe('the banner', () => {
  const connection = signal<Connection>('connecting')
  const text = async (now: Connection) => {
    const place = document.createElement('div')
    connection.value = now
    const site = { connection, retryAt: signal<number | null>(null) } as Partial<Site> as Site
    await act(() => render(<Banner site={site} />, place))
    const shown = place.textContent
    render(null, place)
    return shown
  }

  it('is absent while the tab connects and is connected', async () => {
    expect([await text('connecting'), await text('open')]).toEqual(['', ''])
  })

  it('announces a lost connection and the next attempt', async () => {
    expect(await text('lost')).toBe('The connection to the server is lost. The pages in this tab stay here. Trying again…')
  })

  it('tells that the server refuses this origin, and what the operator can do', async () => {
    expect(await text('refused')).toBe(
      `This server does not accept connections from ${location.origin}. ` +
        'The operator can allow it: set server.public_url, or add it to socket.check_origin.',
    )
  })
})
