"""The routes and replies of `campaign_search`."""

from typing import Final

from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.campaigns import routes, service

API: Final = FeatureApi(
    routers=(routes.router,),
    reply_builder=service.reply_builder,
    tags={"campaigns": "An ad library: questions answered with the campaigns that prove the answer"},
)
