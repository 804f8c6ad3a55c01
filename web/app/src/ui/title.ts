import { percentText } from '../messages/index.ts'
import { page } from '../messages/page.ts'
import type { Availability } from './tab-status.ts'

/** The parts of a tab title. */
export interface TabFace {
  availability: Availability
  name: string | null
  /** Progress in percent, while loading. */
  percent: number | null
  /** Entries that came while nobody looked at the tab. */
  unseen: number
}

/** The title of the tab. The changing part comes first, because tabs are narrow. */
export function tabTitle({ availability, name, percent, unseen }: TabFace): string {
  const named = name ?? page('aPage')
  switch (availability) {
    case 'loading':
      return percent === null ? page('tab', { name: named }) : page('tabPercent', { percent: percentText(percent), name: named })
    case 'unavailable':
      return page('tabUnavailable', { name: named })
    case 'available':
      return unseen === 0 ? page('tab', { name: named }) : page('tabUnseen', { count: unseen, name: named })
  }
}
