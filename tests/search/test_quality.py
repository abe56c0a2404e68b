"""Quality of the ranking: what queries find first, in the documentation and in Chinese, Japanese and Korean texts."""

from __future__ import annotations

import shutil
from pathlib import Path

from carrel import Server
from search.indexed import names, searching

DOCS = Path(__file__).parent.parent.parent / "docs"

TEXTS = {
    "zh/上下文协议.md": """# 模型上下文协议

模型上下文协议（MCP）让应用程序以统一的方式连接工具与数据。服务器提供资源、工具和提示词，客户端负责调用。

## 资源

资源由 URI 标识。客户端可以订阅资源，资源变化时会收到通知。

## 安全

访问令牌不得写入日志。每个请求都要检查权限。
""",
    "zh/茶.md": """# 喝茶

绿茶用八十度的水冲泡，红茶用沸水。

## 茶具

紫砂壶适合乌龙茶，玻璃杯适合绿茶。
""",
    "zh/数据库.md": """# 数据库

索引加快查询。事务保证一致性，回滚撤销修改。

## 备份

每天夜里备份一次，保存三十天。
""",
    "zh/地铁.txt": "北京地铁的首班车是早上五点。换乘不需要另外买票。\n学生票半价。\n",
    "ja/プロトコル.md": """# 通信プロトコル

プロトコルは、機械どうしが会話するための約束です。手紙の書き方に似ています。

## 再接続

接続が切れたら、少し待ってから再接続します。
""",
    "ja/料理.md": """# 味噌汁

だしを取り、豆腐とわかめを入れます。味噌は火を止めてから溶かします。

## カレー

玉ねぎを炒め、じゃがいもと肉を煮込みます。
""",
    "ja/東京.txt": "東京都の人口は約千四百万人です。山手線は環状の路線です。\n京都は古い都です。\n",
    "ko/김치.md": """# 김치

배추를 소금에 절이고 고춧가루와 마늘을 넣습니다.

## 보관

냉장고에 보관하면 한 달 동안 먹을 수 있습니다.
""",
}

#: Queries, and what is to be first, or, after a "+", among the first three.
QUERIES = {
    "协议": "上下文协议.md",
    "上下文": "上下文协议.md",
    "资源订阅": "上下文协议.md",
    "访问令牌": "上下文协议.md",
    "茶": "茶.md",
    "绿茶": "茶.md",
    "紫砂壶": "茶.md",
    "事务回滚": "数据库.md",
    "数据库备份": "数据库.md",
    "地铁首班车": "地铁.txt",
    "学生票": "地铁.txt",
    "プロトコル": "プロトコル.md",
    "再接続": "プロトコル.md",
    "味噌": "料理.md",
    "カレー 玉ねぎ": "料理.md",
    "東京都": "東京.txt",
    "京都": "東京.txt",
    "山手線": "東京.txt",
    "김치": "김치.md",
    "배추": "김치.md",
    "냉장고 보관": "김치.md",
    "architecture": "architecture.md",
    "architecure": "architecture.md",
    "tool search": "tool-search.md",
    "tool-search": "tool-search.md",
    "bigrams passages": "search.md",
    "gateway": "gateway.md",
    "writing a provider": "writing-a-provider.md",
    "troubleshooting": "troubleshooting.md",
    "toubleshooting": "troubleshooting.md",
    "configuration environment variables": "+configuration.md",
    "mount another server namespace": "+providers.md",
    "openat symbolic links race": "+files.md",
    "gitignore": "+files.md",
    "elicitation form": "+elicitation.md",
    "elicitation": "+elicitation.md",
    "deny wins over allow rules": "+access.md",
    "several replicas behind a load balancer": "+scale.md",
    "limits max_message_bytes": "+limits.md",
    "keyring inputs passwords": "+host.md",
    "server lost reconnect growing pauses": "+host.md",
    "frontmatter SKILL.md": "+skills.md",
    "OAuth access token audience": "+authorization.md",
    "completion of template variables": "+uri-templates.md",
    "install claude desktop": "+install.md",
    "targets of carrel serve": "+serve.md",
    "benchmarks requests per second": "+benchmarks.md",
}


async def test_queries_find_what_they_are_about(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    shutil.copytree(DOCS, folder / "docs", ignore=lambda _, every: [name for name in every if ".de." in name])
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    app = Server("library")
    app.add_provider(str(folder))
    missed = {}
    async with searching(app, tmp_path / "cache") as (index, _):
        for query, wanted in QUERIES.items():
            found = names(await index.search(query, limit=3))
            if wanted.removeprefix("+") not in (found if wanted[0] == "+" else found[:1]):
                missed[query] = (wanted, found)
    assert len(QUERIES) >= 40
    assert missed == {}
