import { page } from '../words/page.ts'

/** Tells the operator of a page, where the operator wants to be told. */
export function ReportLink({ address, cid }: { address: string; cid: string }) {
  return (
    <p class="report">
      <a href={address.replaceAll('{cid}', encodeURIComponent(cid))} rel="noreferrer noopener" target="_blank">
        {page('report')}
      </a>
    </p>
  )
}
