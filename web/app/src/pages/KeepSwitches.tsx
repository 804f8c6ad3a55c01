import { useId, useState } from 'preact/hooks'
import { canKeepAwake, isPhone, isKeepAwakeOn } from '../ui/keep-awake.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isKept, PAGES_MAX } from '../ui/open-pages.ts'
import { kept } from '../messages/kept.ts'
import { page as text } from '../messages/page.ts'
import { Toggle } from './Toggle.tsx'

/** The switches for sharing a page in the background and, on phones, for the screen. */
export function KeepSwitches({ page }: { page: OpenPage }) {
  const means = useId()
  const [isRefused, setRefused] = useState(false)
  const keep = (isOn: boolean) => {
    setRefused(isOn && !page.mayKeep())
    if (!isOn || page.mayKeep()) page.keepChoice.value = isOn
  }
  return (
    <div class="keeping">
      <div class="explained">
        <Toggle label={text('keep')} means={means} isOn={isKept(page)} onChange={keep} />
        <p class="small" id={means}>
          {text('keepMeans')}
        </p>
        {isRefused && (
          <p class="notice bad" role="alert">
            {kept('full', { count: PAGES_MAX })}
          </p>
        )}
      </div>
      {canKeepAwake && <Toggle label={text('awake')} isOn={isKeepAwakeOn.value} onChange={(isOn) => (isKeepAwakeOn.value = isOn)} />}
      {isPhone && <p class="small">{text('asleep')}</p>}
    </div>
  )
}
